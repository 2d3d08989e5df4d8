"""Floor 2, the verbs: one step a file, values and ports in, values out; no step calls another."""
