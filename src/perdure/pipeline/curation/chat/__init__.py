"""Which turns of a chat are worth reading."""
