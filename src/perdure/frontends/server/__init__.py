"""The HTTP server: one FastAPI app in which every dialect has a router of its own (`perdure serve`)."""
