"""The vector store `pinecone`."""
