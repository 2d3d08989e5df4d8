"""The vector store `chroma`."""
