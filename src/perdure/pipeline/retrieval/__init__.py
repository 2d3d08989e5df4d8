"""Retrieval: rank the memories of a scope for a query."""
