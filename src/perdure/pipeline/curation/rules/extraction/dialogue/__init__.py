"""What a message means after the one before it: answers, corrections, retractions."""
