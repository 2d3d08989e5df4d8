"""Commands for agents' clients."""
