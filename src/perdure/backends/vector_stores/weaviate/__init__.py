"""The vector store `weaviate`."""
