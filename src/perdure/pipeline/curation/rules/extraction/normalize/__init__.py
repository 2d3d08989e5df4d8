"""Raw text made into clean sentences."""
