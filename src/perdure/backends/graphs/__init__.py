"""The graph store providers."""
