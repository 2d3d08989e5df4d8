"""Sessions, their turns and states; and chains of responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Table, and_, delete, func, insert, or_, select, update

from perdure.backends.ledgers.repositories.base import Chains, Ids, Sessions
from perdure.backends.ledgers.sql.episodes import add_episodes, add_fingerprints
from perdure.backends.ledgers.sql.jobs import add_jobs
from perdure.backends.ledgers.sql.tables import (
    Row,
    change_with,
    check_limit,
    columns_of,
    count_rows,
    decode,
    encode,
    fields_of,
    history,
    in_scope,
    insert_new,
    known_ids,
    links,
    moment_of,
    namings,
    row_of,
    rows_with,
    scope_of_row,
    session_turns,
    sessions,
)
from perdure.backends.ledgers.sql.tables import episodes as messages
from perdure.backends.ledgers.sql.units import Runner, Transaction, reads, runs, writes
from perdure.domain.errors import ConflictError
from perdure.domain.job import Job
from perdure.domain.scope import SCOPE_FIELDS, Scope
from perdure.domain.session import Link, Said, Session, SessionTurn, session_id

# Namings: which turns, states and links name a message or a memory, so that its erasure finds them.

Place = Literal["turn", "state", "link"]


def note_references(connection: Connection, place: Place, owner_id: str, named: Sequence[str], number: int = 0) -> None:
    rows = [{"named_id": id, "place": place, "owner_id": owner_id, "number": number} for id in dict.fromkeys(named)]
    if rows:
        connection.execute(insert_new(connection, namings), rows)


def drop_references(connection: Connection, places: Sequence[Place], owner_ids: Sequence[str]) -> None:
    change_with(connection, delete(namings).where(namings.c.place.in_(places)), namings.c.owner_id, owner_ids)


def naming(connection: Connection, place: Place, ids: Sequence[str]) -> list[str]:
    """Return the owners of such places that name one of the ids."""
    query = select(namings.c.owner_id).where(namings.c.place == place).distinct().order_by(namings.c.owner_id)
    return list(dict.fromkeys(row["owner_id"] for row in rows_with(connection, query, namings.c.named_id, ids)))


def turns_naming(connection: Connection, ids: Sequence[str]) -> list[tuple[str, int]]:
    """Return the turns that name one of the ids, by session and number."""
    query = select(namings.c.owner_id, namings.c.number).where(namings.c.place == "turn").distinct()
    rows = rows_with(connection, query, namings.c.named_id, ids)
    return list(dict.fromkeys((row["owner_id"], row["number"]) for row in rows))


def drop_named(connection: Connection, ids: Sequence[str]) -> None:
    change_with(connection, delete(namings), namings.c.named_id, ids)


@writes(Sessions.keep)
def keep(tx: Transaction, said: Sequence[Said]) -> list[SessionTurn | None]:
    injected: dict[Scope, set[str]] = {}
    for each in said:
        if each.injected:
            injected.setdefault(each.scope, set()).update(each.injected)
    for scope, fingerprints in injected.items():
        add_fingerprints(tx, scope, fingerprints)
    add_episodes(tx.connection, [episode for each in said for episode in each.episodes])
    return [_keep(tx, each) for each in said]


def _keep(tx: Transaction, said: Said) -> SessionTurn | None:
    ids = tuple(episode.id for episode in said.episodes)
    if said.turn is not None:
        id, number = said.turn
        if add_to_turn(tx, id, number, ids, said.at, said.jobs(id, number)):
            return SessionTurn(session_id=id, number=number, episodes=ids, at=said.at)
    if said.name is None:
        return None
    turn = open_turn(tx, said.name, said.scope, ids, said.at, said.store)
    add_jobs(tx, said.jobs(turn.session_id, turn.number))
    return turn


@writes(Sessions.open_turn)
def open_turn(  # noqa: PLR0917 - the transaction and what the port takes
    tx: Transaction, name: str, scope: Scope, episodes: Sequence[str], at: str, store: str = ""
) -> SessionTurn:
    """Begin the next turn; concurrent calls get different numbers, because writers take turns."""
    moment, row = moment_of(at, "at"), _row_of(tx.connection, name, scope, store)
    id = session_id(name, scope, store) if row is None else row["id"]
    number = 1 if row is None else row["turns"] + 1
    if row is None:
        counts = {"turns": 1, "read_turns": 0, "started_at": moment, "last_at": moment}
        made = {"id": id, "name": name, **fields_of(scope, SCOPE_FIELDS), **counts, "store": store}
        tx.connection.execute(insert(sessions), made)
    else:
        last = max(row["last_at"], moment)
        again = update(sessions).values(turns=number, last_at=last, ended_at=None, store=store or row["store"])
        tx.connection.execute(again.where(sessions.c.id == id))
    said = tuple(dict.fromkeys(episodes))
    tx.connection.execute(
        insert(session_turns),
        {"session_id": id, "number": number, "episodes": encode(list(said), "episodes"), "at": moment},
    )
    note_references(tx.connection, "turn", id, said, number)
    return SessionTurn(session_id=id, number=number, episodes=said, at=moment)


@writes(Sessions.add_to_turn)
def add_to_turn(  # noqa: PLR0917 - the transaction and what the port takes
    tx: Transaction, session_id: str, number: int, episodes: Sequence[str], at: str, jobs: Sequence[Job] = ()
) -> bool:
    moment, row = moment_of(at, "at"), _row(tx.connection, session_id)
    turn = and_(session_turns.c.session_id == session_id, session_turns.c.number == number)
    before = tx.connection.execute(select(session_turns.c.episodes).where(turn)).scalar()
    if row is None or before is None:
        return False
    said = encode(list(dict.fromkeys([*decode(before), *episodes])), "episodes")
    tx.connection.execute(update(session_turns).where(turn).values(episodes=said))
    last = max(row["last_at"], moment)
    tx.connection.execute(update(sessions).where(sessions.c.id == session_id).values(last_at=last))
    note_references(tx.connection, "turn", session_id, episodes, number)
    add_jobs(tx, jobs)
    return True


@reads(Sessions.turns)
def turns(tx: Transaction, session_id: str, first: int = 1, last: int | None = None) -> list[SessionTurn]:
    query = select(session_turns).where(session_turns.c.session_id == session_id, session_turns.c.number >= first)
    if last is not None:
        query = query.where(session_turns.c.number <= last)
    rows = tx.connection.execute(query.order_by(session_turns.c.number)).mappings()
    return [
        SessionTurn(session_id=session_id, number=row["number"], episodes=tuple(decode(row["episodes"])), at=row["at"])
        for row in rows
    ]


def _row(connection: Connection, id: str) -> Row | None:
    return row_of(connection, sessions, sessions.c.id == id)


def _row_of(connection: Connection, name: str, scope: Scope, store: str) -> Row | None:
    """Return the store's session of this name, or an old one without a store, which becomes this store's."""
    ids = [session_id(name, scope, store), session_id(name, scope)]
    query = select(sessions).where(sessions.c.id.in_(ids), *_of(store))
    rows = {row["id"]: row for row in connection.execute(query).mappings()}
    return next((rows[id] for id in ids if id in rows), None)


def _of(store: str | None) -> list[ColumnElement[bool]]:
    """Select the sessions of a store, and those without one; all without a store."""
    return [sessions.c.store.in_(("", store))] if store else []


def _sessions(connection: Connection, rows: Sequence[Row], now: str) -> list[Session]:
    """Return sessions from rows, without the states that may not be shown."""
    kept = [row["id"] for row in rows if row["state"] is not None and row["state_until"] > now]
    shown = set(kept) - _of_hidden(connection, kept)
    return [_session(row, row["id"] in shown) for row in rows]


def _of_hidden(connection: Connection, ids: Sequence[str]) -> set[str]:
    """Return which of these sessions have a state with a hidden source message."""
    query = select(namings.c.owner_id).where(
        namings.c.place == "state", namings.c.named_id == messages.c.id, messages.c.hidden == 1
    )
    return {row["owner_id"] for row in rows_with(connection, query, namings.c.owner_id, ids)}


def _session(row: Row, shown: bool) -> Session:
    plain = ("id", "name", "store", "turns", "read_turns", "started_at", "last_at", "ended_at")
    return Session(
        **columns_of(row, plain),
        scope=scope_of_row(row),
        state=decode(row["state"]) if shown else {},
        state_until=row["state_until"] if shown else None,
    )


@reads(Sessions.get)
def get(tx: Transaction, name: str, scope: Scope, store: str = "") -> Session | None:
    row = _row_of(tx.connection, name, scope, store)
    return None if row is None else _sessions(tx.connection, [row], tx.now)[0]


@reads(Sessions.by_id)
def by_id(tx: Transaction, id: str) -> Session | None:
    row = _row(tx.connection, id)
    return None if row is None else _sessions(tx.connection, [row], tx.now)[0]


@reads(Sessions.list)
def list_sessions(tx: Transaction, scope: Scope, limit: int = 100) -> list[Session]:
    check_limit(limit)
    query = select(sessions).where(*in_scope(sessions, scope)).order_by(sessions.c.last_at.desc(), sessions.c.id.desc())
    return _sessions(tx.connection, tx.connection.execute(query.limit(limit)).mappings().all(), tx.now)


@runs(Sessions.idle)
async def idle(
    runner: Runner, before: str, limit: int = 100, scope: Scope | None = None, store: str | None = None
) -> list[Session]:
    """List silent sessions; writes only to take over those without a store."""

    def look(tx: Transaction) -> list[Session]:
        return _idle(tx, before, limit, scope, store)

    found = await runner.run_read(look)
    if store and (new := [session.id for session in found if session.store != store]):
        await runner.run_write(lambda tx: _claim(tx, new, store), durable=False)
        found = await runner.run_read(look)
    return found


def _idle(tx: Transaction, before: str, limit: int, scope: Scope | None, store: str | None) -> list[Session]:
    check_limit(limit)
    left = or_(sessions.c.ended_at.is_(None), sessions.c.read_turns < sessions.c.turns)
    query = select(sessions).where(
        left, sessions.c.last_at < moment_of(before, "before"), *in_scope(sessions, scope), *_of(store)
    )
    query = query.order_by(sessions.c.last_at, sessions.c.id).limit(limit)
    return _sessions(tx.connection, tx.connection.execute(query).mappings().all(), tx.now)


def _claim(tx: Transaction, ids: Sequence[str], store: str) -> None:
    """Assign sessions without a store to this one."""
    change_with(tx.connection, update(sessions).where(sessions.c.store == "").values(store=store), sessions.c.id, ids)


@writes(Sessions.mark_read, durable=False)
def mark_read(tx: Transaction, session_id: str, through: int) -> None:
    row = _row(tx.connection, session_id)
    if row is not None:
        read = max(row["read_turns"], min(through, row["turns"]))
        tx.connection.execute(update(sessions).where(sessions.c.id == session_id).values(read_turns=read))


@writes(Sessions.end, durable=False)
def end(tx: Transaction, session_id: str, at: str, *, silent_since: str | None = None) -> bool:
    still = [] if silent_since is None else [sessions.c.last_at < moment_of(silent_since, "silent_since")]
    query = update(sessions).where(sessions.c.id == session_id, sessions.c.ended_at.is_(None), *still)
    return tx.connection.execute(query.values(ended_at=moment_of(at, "at"))).rowcount > 0


@writes(Sessions.put_state, durable=False)
def put_state(
    tx: Transaction, session_id: str, state: Mapping[str, Any], until: str, *, episodes: Ids = (), memories: Ids = ()
) -> bool:
    """Store a state, unless one of its sources is erased; expired states are deleted."""
    text, moment = encode(dict(state), "state"), moment_of(until, "until")
    old = select(sessions.c.id).where(sessions.c.state.is_not(None), sessions.c.state_until <= tx.now)
    _drop_states(tx.connection, tx.connection.execute(old).scalars().all())
    if _row(tx.connection, session_id) is None or not _stand(tx.connection, episodes, memories):
        return False
    _drop_states(tx.connection, [session_id])
    if state:
        values = {"state": text, "state_until": moment}
        tx.connection.execute(update(sessions).where(sessions.c.id == session_id).values(values))
        note_references(tx.connection, "state", session_id, [*episodes, *memories])
    return True


def _stand(connection: Connection, episodes: Sequence[str], memories: Sequence[str]) -> bool:
    """Whether all these messages exist, and none of these memories was erased."""
    if not are_there(connection, episodes):
        return False
    erased = select(history.c.id).where(history.c.erased == 1).limit(1)
    return next(rows_with(connection, erased, history.c.memory_id, memories), None) is None


def are_there(connection: Connection, episodes: Sequence[str]) -> bool:
    return known_ids(connection, messages, episodes) >= set(episodes)


def _drop_states(connection: Connection, ids: Sequence[str]) -> None:
    change_with(connection, update(sessions).values(state=None, state_until=None), sessions.c.id, ids)
    drop_references(connection, ["state"], ids)


def check(connection: Connection) -> list[str]:
    """Return sentences about turns and their counts that disagree."""
    there = (
        select(sessions.c.id)
        .outerjoin(session_turns, session_turns.c.session_id == sessions.c.id)
        .group_by(sessions.c.id, sessions.c.turns)
        .having(
            or_(
                func.count(session_turns.c.number) != sessions.c.turns,
                func.max(session_turns.c.number) != sessions.c.turns,
            )
        )
    )
    sentences = [
        f"the turns of session {id} are not those that it has counted"
        for id in connection.execute(there.order_by(sessions.c.id)).scalars()
    ]
    count = count_rows(connection, session_turns, session_turns.c.session_id.not_in(select(sessions.c.id)))
    return [*sentences, *([f"{count} turns are of no session"] if count else [])]


# Chains of responses: each link stands for itself and names the one before it.

_EMPTY = "[]"
_LINK = ("id", "previous_id", "session", "model")


@writes(Chains.put)
def put_response(tx: Transaction, link: Link) -> None:
    """Store a response; of two concurrent ones with one id the second finds the first, because writers take turns."""
    row = {
        **fields_of(link, _LINK),
        **fields_of(link.scope, SCOPE_FIELDS),
        "items": encode(link.items, "items"),
        "episodes": encode(list(link.episodes), "episodes"),
        "created_at": moment_of(link.created_at, "created_at"),
    }
    before = row_of(tx.connection, links, links.c.id == link.id)
    if before is not None and scope_of_row(before) != link.scope:
        raise ConflictError("there is a response of this id behind other walls: give each response an id of its own")
    _drop(tx.connection, [link.id])
    tx.connection.execute(insert(links), row)
    note_references(tx.connection, "link", link.id, link.episodes)


@writes(Chains.name)
def name_messages(tx: Transaction, id: str, episodes: Sequence[str]) -> bool:
    row = row_of(tx.connection, links, links.c.id == id)
    if row is None or row["items"] == _EMPTY:
        return False
    named = list(dict.fromkeys([*decode(row["episodes"]), *episodes]))
    if not are_there(tx.connection, named):
        _empty(tx.connection, [id])
        return False
    tx.connection.execute(update(links).where(links.c.id == id).values(episodes=encode(named, "episodes")))
    note_references(tx.connection, "link", id, episodes)
    return True


def _empty(connection: Connection, ids: Sequence[str]) -> None:
    change_with(connection, update(links).values(items=_EMPTY, episodes=_EMPTY), links.c.id, ids)
    drop_references(connection, ["link"], ids)


def _drop(connection: Connection, ids: Sequence[str]) -> None:
    change_with(connection, delete(links), links.c.id, ids)
    drop_references(connection, ["link"], ids)


def _link(row: Row) -> Link:
    said = tuple(decode(row["episodes"]))
    plain = columns_of(row, (*_LINK, "created_at"))
    return Link(**plain, scope=scope_of_row(row), items=decode(row["items"]), episodes=said)


@reads(Chains.get)
def get_response(tx: Transaction, id: str, scope: Scope) -> Link | None:
    row = row_of(tx.connection, links, links.c.id == id, *in_scope(links, scope))
    return None if row is None else _link(row)


@reads(Chains.chain)
def chain(tx: Transaction, id: str, scope: Scope) -> list[Link]:
    """Return a response and its ancestors in the scope, with one query."""
    columns = select(links.c.id, links.c.previous_id)
    line = columns.where(links.c.id == id, *in_scope(links, scope)).cte("line", recursive=True)
    # UNION drops a row that is there already, and so ends at a cycle.
    line = line.union(columns.where(links.c.id == line.c.previous_id, *in_scope(links, scope)))
    rows = tx.connection.execute(select(links).where(links.c.id.in_(select(line.c.id)))).mappings()
    found = {row["id"]: _link(row) for row in rows}
    walked: dict[str, Link] = {}
    here: str | None = id
    while here is not None and here in found and here not in walked:
        walked[here] = found[here]
        here = found[here].previous_id
    return list(reversed(walked.values()))


@writes(Chains.delete)
def delete_response(tx: Transaction, id: str, scope: Scope) -> bool:
    if get_response(tx, id, scope) is None:
        return False
    _drop(tx.connection, [id])
    return True


def _ids_in(connection: Connection, table: Table, scope: Scope | None) -> list[str]:
    if scope is None:
        return []
    return list(connection.execute(select(table.c.id).where(*in_scope(table, scope))).scalars())


def count_responses(connection: Connection, ids: Sequence[str], scope: Scope | None) -> int:
    """Count the responses that are deleted with a scope, or lose text because they name one of the ids."""
    return len({*_ids_in(connection, links, scope), *naming(connection, "link", ids)})


def erase_responses(connection: Connection, ids: Sequence[str], scope: Scope | None) -> int:
    """Delete a scope's responses, and the text of others that name one of the ids; return how many."""
    count = count_responses(connection, ids, scope)
    emptied = naming(connection, "link", ids)
    _empty(connection, emptied)
    _drop(connection, _ids_in(connection, links, scope))
    return count


def ids_inside(connection: Connection, scope: Scope | None) -> list[str]:
    return _ids_in(connection, sessions, scope)


def count_sessions(connection: Connection, ids: Sequence[str], scope: Scope | None) -> int:
    """Count the sessions that are deleted with a scope, or lose a state with these sources."""
    return len({*ids_inside(connection, scope), *naming(connection, "state", ids)})


def erase_sessions(connection: Connection, ids: Sequence[str], scope: Scope | None) -> int:
    """Delete a scope's sessions, states with these sources, and the ids in turns; see `count_sessions`.

    Turns stay, so that numbers have no gaps.
    """
    count = count_sessions(connection, ids, scope)
    _drop_states(connection, naming(connection, "state", ids))
    gone = ids_inside(connection, scope)
    change_with(connection, delete(session_turns), session_turns.c.session_id, gone)
    change_with(connection, delete(sessions), sessions.c.id, gone)
    drop_references(connection, ["turn", "state"], gone)
    erased = set(ids)
    for id, number in turns_naming(connection, ids):
        turn = and_(session_turns.c.session_id == id, session_turns.c.number == number)
        said = decode(connection.execute(select(session_turns.c.episodes).where(turn)).scalar_one())
        left = encode([each for each in said if each not in erased], "episodes")
        connection.execute(update(session_turns).where(turn).values(episodes=left))
    return count
