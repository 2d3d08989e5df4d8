"""The engine's core: kernel, row mapping, embedding, history, access scopes."""
