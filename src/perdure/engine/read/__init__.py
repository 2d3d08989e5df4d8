"""The read path: search, context, and why a memory was found or not."""
