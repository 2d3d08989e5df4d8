"""Read the credentials from the headers of a request; nothing is verified here."""

from __future__ import annotations

from dataclasses import dataclass, field

from starlette.datastructures import Headers

from perdure.engine.api_keys import PREFIX

TEAM_HEADER = "x-team-scope"
"""The header by which a request names the team whose memory it is about."""
_SCHEMES = ("bearer", "token")
MOST = 4
"""Headers of one name that are read; each costs a lookup."""


@dataclass(frozen=True, slots=True)
class Credential:
    """One secret of a request."""

    scheme: str
    """`bearer`, `token`, or `key` for X-API-Key."""
    secret: str = field(repr=False)

    @property
    def is_token(self) -> bool:
        """Whether it has the form of a JWT; only a Bearer can be one."""
        return self.scheme == "bearer" and self.secret.count(".") == 2 and not self.secret.startswith(PREFIX)


def credentials(headers: Headers) -> list[Credential]:
    """Return the credentials of Authorization, then of X-API-Key; a repeated header gives several."""
    found = []
    for value in headers.getlist("authorization")[:MOST]:
        scheme, _, secret = value.strip().partition(" ")
        if scheme.lower() in _SCHEMES and secret.strip():
            found.append(Credential(scheme.lower(), secret.strip()))
    found += [Credential("key", key.strip()) for key in headers.getlist("x-api-key")[:MOST] if key.strip()]
    return found
