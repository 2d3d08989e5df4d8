"""The vector store `memory`."""
