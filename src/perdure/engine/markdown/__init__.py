"""Memory in files: what happens in the folder becomes memory, and what memory does is told to git."""
