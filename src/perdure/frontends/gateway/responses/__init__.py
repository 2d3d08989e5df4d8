"""OpenAI's Responses API with memory, before model servers that have one and before those that have only chat."""
