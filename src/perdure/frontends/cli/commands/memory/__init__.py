"""`perdure memory`: Markdown memories from the terminal, and a proxy that reads and writes them."""
