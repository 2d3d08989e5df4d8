"""A scope's memories in memory, with the features that ranking reads."""
