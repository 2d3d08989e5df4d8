"""The gateway: OpenAI's dialect, before any model that speaks it."""
