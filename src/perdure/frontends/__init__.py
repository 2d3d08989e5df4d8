"""Floor 4: doors. Each translates a dialect and holds no policy."""
