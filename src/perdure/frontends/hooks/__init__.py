"""Hooks: memory in agents' clients without any tool call. A client runs `perdure hook` at a session's events."""
