"""The ways into one memory, each as a test speaks it: keep, read, change and delete, behind one shape."""
