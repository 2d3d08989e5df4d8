"""The agent runtime: memories in named tables, documents, the embedding queue, and table records."""
