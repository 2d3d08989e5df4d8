"""Middleware in front of all routes: authentication, limits, origin, timeouts, request context."""
