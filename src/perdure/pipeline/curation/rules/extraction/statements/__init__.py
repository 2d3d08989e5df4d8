"""Sentences made into third-person facts."""
