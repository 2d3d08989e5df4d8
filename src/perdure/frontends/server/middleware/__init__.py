"""What every request passes before its route: authentication, limits, origin, timeouts, request context."""
