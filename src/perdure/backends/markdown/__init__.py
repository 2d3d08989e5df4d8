"""The basis of the `markdown` store: names, front matter, notes about files, and versions in git."""
