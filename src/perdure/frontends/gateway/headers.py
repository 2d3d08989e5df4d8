"""Headers on their way up and down: what is for one connection alone, or for us, ends here; all else passes."""

from __future__ import annotations

import re
from collections.abc import Iterable

from starlette.types import Scope

from perdure.domain.text.readable import utf8_of
from perdure.engine import api_keys

Pairs = list[tuple[str, str]]

_ONE_CONNECTION = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_OUR_KEY = re.compile(f"{api_keys.PREFIX}[0-9a-f]{{16}}", re.IGNORECASE)
_REWRITTEN = frozenset({"host", "content-length", "expect"})
OURS = ("x-memory-", "x-disable-router-memory", "x-authz-user-id", "x-team-scope")
"""What headers begin with that speak to this server alone."""


def upward(
    scope: Scope, *, consumed: Iterable[str] = (), authorization: str | None = None, identity: bool = False
) -> Pairs:
    """A request's headers as they go upstream.

    `consumed` are the names of those that held a key of ours, `authorization` is what stands in their place, or where
    there was none; a key of ours in any other place ends here too. `identity` asks for an answer that is not
    compressed, so that it can be read. InvalidInputError for a value that is no UTF-8: no client library sends it on
    as it came.
    """
    found = _decoded(scope["headers"])
    dropped = _ONE_CONNECTION | _REWRITTEN | _named(found) | {*consumed}
    kept = [
        (name, utf8_of(value, name))
        for name, value in found
        if name.lower() not in dropped
        and not name.lower().startswith(OURS)
        and not _OUR_KEY.search(value)
        and not (identity and name.lower() == "accept-encoding")
    ]
    if identity:
        kept.append(("accept-encoding", "identity"))
    if authorization is not None and not _carries(kept):
        kept.append(("authorization", authorization))
    return kept


def body_length(scope: Scope) -> str | None:
    """The length that a request's body was announced with; None where it comes in chunks, which overrule that."""
    told = {name.lower(): value for name, value in _decoded(scope["headers"])}
    return None if "transfer-encoding" in told else told.get("content-length")


def downward(headers: Pairs, *, is_changed: bool = False) -> list[tuple[bytes, bytes]]:
    """An answer's headers as they go to the client; `is_changed` where its body no longer has the length it had."""
    dropped = _ONE_CONNECTION | _named(headers) | {"date"} | ({"content-length"} if is_changed else set())
    return [
        (_down(name).encode("latin-1"), value.encode("latin-1"))
        for name, value in headers
        if name.lower() not in dropped
    ]


def _down(name: str) -> str:
    """Answers have our own X-Request-Id: the upstream's stands beside it."""
    return "x-upstream-request-id" if name.lower() == "x-request-id" else name


def _carries(headers: Pairs) -> bool:
    return any(name.lower() == "authorization" for name, _ in headers)


def _named(headers: Pairs) -> set[str]:
    """What Connection says is for one connection alone."""
    return {
        each.strip().lower() for name, value in headers if name.lower() == "connection" for each in value.split(",")
    }


def _decoded(headers: Iterable[tuple[bytes, bytes]]) -> Pairs:
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]
