"""The vector store `sqlite`."""
