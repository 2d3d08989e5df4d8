"""The vector store `milvus`."""
