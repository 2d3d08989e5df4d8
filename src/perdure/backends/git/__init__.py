"""Versions of a Markdown memory's files: git under the folder, read and written as memory."""
