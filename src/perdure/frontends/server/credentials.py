"""The credentials that a request carries, before anybody has looked whether they are good."""

from __future__ import annotations

from dataclasses import dataclass, field

from starlette.datastructures import Headers

from perdure.engine.keys import PREFIX

TEAM_HEADER = "x-team-scope"
"""By which a request says that it is about a team's memory (004)."""
_SCHEMES = ("bearer", "token")


@dataclass(frozen=True, slots=True)
class Credential:
    """One secret that came with a request."""

    scheme: str
    """`bearer`, `token`, or `key` for X-API-Key."""
    secret: str = field(repr=False)

    @property
    def is_token(self) -> bool:
        """Whether it has the form of a JWT, which only a Bearer may be (X25)."""
        return self.scheme == "bearer" and self.secret.count(".") == 2 and not self.secret.startswith(PREFIX)


def credentials(headers: Headers) -> list[Credential]:
    """What Authorization and X-API-Key hold, in this order."""
    found = []
    scheme, _, secret = headers.get("authorization", "").strip().partition(" ")
    if scheme.lower() in _SCHEMES and secret.strip():
        found.append(Credential(scheme.lower(), secret.strip()))
    key = headers.get("x-api-key", "").strip()
    if key:
        found.append(Credential("key", key))
    return found
