"""Upkeep: what keeps a memory small, true and safe while nobody looks (issue 7)."""
