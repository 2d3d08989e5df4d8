"""The vector store `cached`."""
