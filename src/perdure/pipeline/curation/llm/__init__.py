"""The curator that asks a language model."""
