"""What every path stands on: the kernel, row mapping, embedding, history, access scopes."""
