"""The curator that asks a language model (spec 000 §4)."""
