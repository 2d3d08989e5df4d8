"""Reads entities and relations out of memories, resolves names, and tells for how long a relation holds (000 §4.5)."""
