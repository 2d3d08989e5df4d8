"""What a question asks for: its words, its time, its rewriting."""
