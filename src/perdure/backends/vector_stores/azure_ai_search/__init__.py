"""The vector store `azure_ai_search`."""
