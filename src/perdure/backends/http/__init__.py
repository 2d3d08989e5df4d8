"""The model's servers that the gateway stands before."""
