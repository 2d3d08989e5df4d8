"""The vector store `markdown`."""
