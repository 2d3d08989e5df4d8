"""Judges that others wrote: a real client, and the protocol's official suites."""
