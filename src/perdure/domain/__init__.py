"""Floor 0, the nouns: standard library only, no I/O."""
