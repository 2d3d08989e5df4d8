"""Requests to forget: recognised, and what they name."""
