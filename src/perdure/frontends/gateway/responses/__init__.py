"""OpenAI's Responses API with memory, for model servers with that API and for those with chat only."""
