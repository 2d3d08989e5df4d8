"""The graph in the engine: fed by jobs that follow every change, read by name, and merged into search (000 §4.5)."""
