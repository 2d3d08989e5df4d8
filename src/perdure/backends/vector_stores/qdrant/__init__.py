"""The vector store `qdrant`."""
