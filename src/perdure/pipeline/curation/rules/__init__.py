"""The rules curator: extraction and reconciliation without a model."""
