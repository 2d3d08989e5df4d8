"""What the `markdown` store stands on: names, front matter, what is noted of files, and their versions in git."""
