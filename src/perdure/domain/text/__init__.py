"""The text toolkit: patterns, stems, words, readable values."""
