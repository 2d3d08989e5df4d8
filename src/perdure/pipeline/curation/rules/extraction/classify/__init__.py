"""What kind of text a message is, and whether it is worth reading."""
