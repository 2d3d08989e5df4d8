"""The vector store providers."""
