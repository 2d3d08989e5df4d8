"""The cache providers."""
