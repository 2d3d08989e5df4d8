"""Units of work: functions that run inside one database transaction, each implementing a port's method.

`reads`, `writes`, `asks` and `runs` name the method and choose the transaction; `implemented` fills a class with all of
them. Units that need SQLAlchemy (0.3 s to import) are in modules imported on the first call of one of them. Units for
opening, a first search and closing are here, in plain SQL for SQLite and PostgreSQL; `:name` is a value.
"""

from __future__ import annotations

import abc
import json
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from perdure.backends.blocking import run_blocking
from perdure.backends.ledgers.base import Ledger, Mark
from perdure.backends.ledgers.repositories.base import Settings
from perdure.domain.errors import LedgerError
from perdure.domain.scope import Scope

if TYPE_CHECKING:
    from sqlalchemy import Connection

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)
_MODULES = ("episodes", "history", "jobs", "journal", "records", "server", "sessions", "upkeep")
_CALLS: dict[str, Callable[..., Awaitable[Any]]] = {}
"""What implements each method of a port, by the method's qualified name."""


class ConnectionLostError(LedgerError):
    """The connection broke during a transaction, which was undone, or committed if it was ending."""


class Ask:
    """A transaction for plain SQL that all our databases understand."""

    __slots__ = ("_rows", "beneath")

    def __init__(
        self, rows: Callable[[str, Mapping[str, object]], Sequence[Sequence[Any]]], beneath: Connection | None = None
    ) -> None:
        self._rows = rows
        self.beneath = beneath  # SQLAlchemy's connection that the transaction is on, if it is on one

    def __call__(self, sql: str, /, **values: object) -> Sequence[Sequence[Any]]:
        """Run a statement, in which `:name` stands for a value; return its rows."""
        return self._rows(sql, values)


def asking_on(connection: Connection) -> Ask:
    """Return a plain SQL transaction on a SQLAlchemy connection."""
    from sqlalchemy import text

    def rows(sql: str, values: Mapping[str, object]) -> Sequence[Sequence[Any]]:
        result = connection.execute(text(sql), values)
        return result.all() if result.returns_rows else ()

    return Ask(rows, connection)


@dataclass(frozen=True, slots=True)
class Writer:
    """The writing owner, the machine's boot id, and a test of whether another owner is alive."""

    owner: str
    boot_id: str
    alive: Callable[[str, Connection | Ask], bool]


@dataclass(frozen=True, slots=True)
class Transaction:
    """A running transaction: its connection, its writer, and the time at which its call began."""

    connection: Connection
    writer: Writer
    now: str


class Runner(Protocol):
    """An open ledger, which runs units of work."""

    def now(self) -> str:
        """Return the current time by the ledger's clock."""

    def check_open(self) -> None:
        """Raise LedgerError if the ledger is not open."""

    async def run_read(self, unit: Callable[[Transaction], T]) -> T:
        """Run a unit that only reads in a thread."""

    async def run_plain(self, unit: Callable[[Ask, Writer], T]) -> T:
        """Run a unit with plain SQL in a thread, without importing SQLAlchemy if possible."""

    async def run_write(
        self, unit: Callable[[Transaction], T], *, durable: bool, within: Iterable[Scope] | None = ()
    ) -> T:
        """Run a unit that writes in a thread; a `durable` one survives power loss on return.

        LedgerError if a lock was lost that overlaps a scope in `within`, or any lock if that is None.
        """


def load() -> None:
    """Import the modules of all units in the caller's thread."""
    for name in _MODULES:
        import_module(f"{__package__}.{name}")


def runs(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[[Callable[Concatenate[Runner, P], Coroutine[Any, Any, T]]], Callable[..., Any]]:
    """Make a coroutine function, which runs units itself, the implementation of a port's method."""

    def register(call: Callable[Concatenate[Runner, P], Coroutine[Any, Any, T]]) -> Callable[..., Any]:
        _CALLS[method.__qualname__] = call
        return call

    return register


def reads(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[[Callable[Concatenate[Transaction, P], T]], Callable[Concatenate[Transaction, P], T]]:
    """Make a unit that only reads the implementation of a port's method."""

    def register(unit: Callable[Concatenate[Transaction, P], T]) -> Callable[Concatenate[Transaction, P], T]:
        async def call(runner: Runner, /, *args: P.args, **kwargs: P.kwargs) -> T:
            return await runner.run_read(lambda tx: unit(tx, *args, **kwargs))

        _CALLS[method.__qualname__] = call
        return unit

    return register


def asks(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[[Callable[Concatenate[Ask, Writer, P], T]], Callable[Concatenate[Ask, Writer, P], T]]:
    """Make a unit with plain SQL the implementation of a port's method."""

    def register(unit: Callable[Concatenate[Ask, Writer, P], T]) -> Callable[Concatenate[Ask, Writer, P], T]:
        async def call(runner: Runner, /, *args: P.args, **kwargs: P.kwargs) -> T:
            return await runner.run_plain(lambda ask, writer: unit(ask, writer, *args, **kwargs))

        _CALLS[method.__qualname__] = call
        return unit

    return register


def writes(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
    *,
    durable: bool = True,
    within: Callable[P, Iterable[Scope]] | tuple[()] | None = (),
) -> Callable[[Callable[Concatenate[Transaction, P], T]], Callable[Concatenate[Transaction, P], T]]:
    """Make a unit that writes the implementation of a port's method; see `Runner.run_write`.

    `within` may be a function that finds the scopes in the method's arguments.
    """

    def register(unit: Callable[Concatenate[Transaction, P], T]) -> Callable[Concatenate[Transaction, P], T]:
        async def call(runner: Runner, /, *args: P.args, **kwargs: P.kwargs) -> T:
            scopes = within(*args, **kwargs) if callable(within) else within
            return await runner.run_write(lambda tx: unit(tx, *args, **kwargs), durable=durable, within=scopes)

        _CALLS[method.__qualname__] = call
        return unit

    return register


def implemented(cls: C) -> C:
    """Give a class the implementing unit of each abstract method that it lacks."""
    for name in getattr(cls, "__abstractmethods__", ()):
        setattr(cls, name, _forwarding(getattr(cls, name)))
    abc.update_abstractmethods(cls)
    return cls


def _forwarding(method: F) -> F:
    @wraps(method, updated=())
    async def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        runner: Runner = self.transactions
        runner.check_open()
        if method.__qualname__ not in _CALLS:
            await run_blocking(load)
        return await _CALLS[method.__qualname__](runner, *args, **kwargs)

    return call  # type: ignore[return-value]  # `wraps` gave it the method's signature


HEAD = "0006"  # the newest migration: what a ledger must be at to be used
SCRUB = "scrub"  # the mark that stands while erased text may still be in the bytes of the files
SETTINGS_PREFIX = "settings:"  # what the marks of settings begin with; marks of other uses have no prefix
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def scope_key(scope: Scope) -> str:
    """Return the scope as canonical JSON: equal text for equal scopes."""
    return _encode(scope.given())


def scope_of_key(key: str) -> Scope:
    """Return the scope of its canonical JSON."""
    return Scope(**json.loads(key))


def scrub_wanted(ask: Ask) -> str | None:
    """Return the mark of a postponed scrub, or None."""
    return _mark(ask, SCRUB)


def _mark(ask: Ask, name: str) -> str | None:
    rows = ask("SELECT value FROM marks WHERE name = :name", name=name)
    return None if not rows else str(rows[0][0])


@asks(Settings.get)
def get_settings(ask: Ask, _writer: Writer, name: str) -> dict[str, Any]:
    text = _mark(ask, SETTINGS_PREFIX + name)
    found: dict[str, Any] = {} if text is None else json.loads(text)
    return found


@asks(Ledger.may_have_pending)
def may_have_pending(ask: Ask, writer: Writer, store_identity: str) -> bool:
    if ask("SELECT 1 FROM journal WHERE store_identity = :store AND state = 'written' LIMIT 1", store=store_identity):
        return True
    lost = """
        SELECT 1 FROM journal
        WHERE store_identity = :store AND state = 'applied' AND (boot_id <> :boot OR boot_id = '') LIMIT 1
    """
    return bool(ask(lost, store=store_identity, boot=writer.boot_id))


@asks(Ledger.unsynced)
def unsynced(ask: Ask, _writer: Writer, store_identity: str) -> list[str]:
    query = """
        SELECT batch_id FROM journal
        WHERE store_identity = :store AND state = 'applied' GROUP BY batch_id ORDER BY min(sequence)
    """
    return [batch for (batch,) in ask(query, store=store_identity)]


def marks_of_now(ask: Ask) -> tuple[Mark, Mark]:
    """Return the last given numbers, and the last ones whose transactions are all visible."""
    rows = ask("SELECT name, value FROM counters WHERE name IN ('change', 'episode')")
    values = {name: int(value) for name, value in rows}
    given = Mark(values.get("change", 0), values.get("episode", 0))
    ((first,),) = ask("SELECT min(sequence) FROM journal WHERE state = 'written'")
    if first is None:
        return given, given
    # Its history may become visible after that of later numbers.
    return given, Mark(min(given.change, first - 1), given.episode)
