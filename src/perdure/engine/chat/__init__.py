"""Memory for conversations with a model: recall before it is asked, and keep the turn after it has answered."""
