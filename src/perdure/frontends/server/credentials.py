"""The credentials that a request carries, before anybody has looked whether they are good."""

from __future__ import annotations

from dataclasses import dataclass, field

from starlette.datastructures import Headers

from perdure.engine.keys import PREFIX

TEAM_HEADER = "x-team-scope"
"""By which a request says that it is about a team's memory (004)."""
_SCHEMES = ("bearer", "token")
MOST = 4
"""Headers of one name that are looked at: nobody needs more, and each is looked up."""


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
    """What Authorization and X-API-Key hold, in this order; each as often as it was sent."""
    found = []
    for value in headers.getlist("authorization")[:MOST]:
        scheme, _, secret = value.strip().partition(" ")
        if scheme.lower() in _SCHEMES and secret.strip():
            found.append(Credential(scheme.lower(), secret.strip()))
    found += [Credential("key", key.strip()) for key in headers.getlist("x-api-key")[:MOST] if key.strip()]
    return found
