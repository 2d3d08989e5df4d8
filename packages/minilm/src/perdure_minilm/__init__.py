"""The weights and the vocabulary of perdure's built-in embedder: data only, read by `perdure`."""
