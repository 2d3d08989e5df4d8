"""The settings of an engine: read, checked, and resolved to models."""
