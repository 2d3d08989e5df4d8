"""The vector store `pgvector`."""
