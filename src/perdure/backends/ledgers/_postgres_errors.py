"""What goes wrong with a PostgreSQL server, by what can be done about it; never in words that quote what is stored."""

from __future__ import annotations

import psycopg

from perdure.backends.postgres_service import NO_ROOM, is_away, why_away
from perdure.domain.errors import InvalidInputError, LedgerError, PerdureError

_UNCHANGED = "nothing was changed"
_BY_STATE = {
    "25006": "may only be read here: name the primary server (target_session_attrs=read-write finds it)",
    "42501": "refuses what the user of its address may not do: it must own the schema, or be allowed to make it",
    "42P01": "has lost tables while it was open: open it again",
    "3F000": "has lost its schema while it was open: open it again",
    "53100": f"cannot grow: the server's disk is full; {_UNCHANGED}",
    "53200": f"failed: the server is out of memory; {_UNCHANGED}",
    "53300": NO_ROOM,
    "57014": f"took longer than statement_timeout; {_UNCHANGED}",
    "25P03": f"gave up a transaction in which this process had stood still; {_UNCHANGED}",
    "58030": f"failed: the server cannot read or write its files; {_UNCHANGED}",
}
_LOCKED = ("55P03", "40P01", "40001")
_DAMAGED = ("XX001", "XX002")
_TOO_LONG = "54000"


def in_our_words(error: psycopg.Error, name: str, lock_timeout: float) -> PerdureError:
    """The error of a ledger with this name."""
    state = error.sqlstate
    if state in _LOCKED:
        return locked(name, lock_timeout)
    if state == _TOO_LONG:
        return InvalidInputError(
            f"an id, a key or a scope is longer than the ledger {name} can index (some 2,700 bytes); {_UNCHANGED}"
        )
    if state in _BY_STATE:
        return LedgerError(f"the ledger {name} {_BY_STATE[state]}")
    if state in _DAMAGED:
        return LedgerError(f"the ledger {name} is damaged ({type(error).__name__}): restore a copy of the database")
    if is_away(error):
        return LedgerError(f"the ledger {name} {why_away(error)}")
    return LedgerError(f"the ledger {name} failed: {type(error).__name__} ({state}); {_UNCHANGED}")


def locked(name: str, lock_timeout: float) -> LedgerError:
    """The error of one who waited too long."""
    return LedgerError(f"the ledger {name} was locked by another writer for more than {lock_timeout:g} s; {_UNCHANGED}")


def damaged(error: BaseException | None) -> bool:
    """Whether the server found bytes on its disk that it had not written."""
    return getattr(error, "sqlstate", None) in _DAMAGED
