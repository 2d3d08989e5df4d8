"""Floor 1: the outside world. A folder is a family, a file or subfolder a provider, `base.py` the port."""
