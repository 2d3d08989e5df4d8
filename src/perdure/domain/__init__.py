"""Floor 0, the value types: standard library only, no I/O."""
