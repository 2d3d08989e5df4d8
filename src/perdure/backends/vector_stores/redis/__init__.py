"""The vector store `redis`."""
