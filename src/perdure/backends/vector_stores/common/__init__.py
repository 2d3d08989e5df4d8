"""What several vector stores share."""
