"""One file for each migration, in their order."""
