"""The gateway: OpenAI's API in front of any compatible model server."""
