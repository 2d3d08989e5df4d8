"""How dense, keyword and temporal signals become one score."""
