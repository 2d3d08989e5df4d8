"""Maintenance: keeps a memory small, consistent and safe."""
