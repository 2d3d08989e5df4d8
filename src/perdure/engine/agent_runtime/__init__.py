"""What the agent runtime of spec 003 does: memories in named tables, documents, the embedding queue, and its rows."""
