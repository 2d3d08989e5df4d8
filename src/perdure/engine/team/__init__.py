"""Teams: memories shared by members, with a visibility and a truth level."""
