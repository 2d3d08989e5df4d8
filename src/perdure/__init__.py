"""perdure: a long-term memory engine for AI agents."""
