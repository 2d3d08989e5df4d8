"""The agent runtime's tables."""
