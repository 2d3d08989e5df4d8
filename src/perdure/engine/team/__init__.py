"""Teams: memories that members share, each as visible and as trusted as its tags say (spec 004)."""
