"""The vector store `faiss`."""
