"""The routes of the gateway, which a server mounts beside its own."""

from __future__ import annotations

from perdure.frontends.gateway import chat, health, sessions
from perdure.frontends.gateway.responses import routes as responses

ROUTERS = (chat.router, health.router, responses.router, sessions.router)
"""In the order in which they are asked; what passes everything else on is not among them (`passing`)."""
