"""Floor 1: the world outside. A folder is a family, a file is a provider, `base.py` is the port."""
