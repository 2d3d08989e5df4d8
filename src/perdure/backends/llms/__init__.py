"""The language model providers."""
