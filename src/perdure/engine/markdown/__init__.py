"""Memory in files: changes in the folder become changes of memory, and changes of memory become commits."""
