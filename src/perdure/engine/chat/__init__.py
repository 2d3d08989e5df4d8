"""Memory for conversations with a model: recall before the model is called, and store the turn after its answer."""
