"""Local servers that speak the vendors' wire formats, strictly: what the real service would refuse, they refuse."""
