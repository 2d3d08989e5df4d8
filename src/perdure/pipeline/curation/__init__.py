"""What of a conversation is kept, and what becomes of what was known."""
