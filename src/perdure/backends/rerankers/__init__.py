"""The reranker providers."""
