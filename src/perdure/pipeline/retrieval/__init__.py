"""Recall: what of the memories that a scope holds is brought back for a query, and in which order."""
