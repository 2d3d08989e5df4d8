"""The write path: add, update, delete, forget, and what decides each."""
