"""The vector store `elasticsearch`."""
