"""The embedder providers."""
