"""Sessions: turns that are counted, what was said in each, and what it all came to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, or_, select, update

from perdure.backends.ledgers.sql import caches
from perdure.backends.ledgers.sql import episodes as _episodes
from perdure.backends.ledgers.sql import jobs as _jobs
from perdure.backends.ledgers.sql.context import Transaction
from perdure.backends.ledgers.sql.rows import (
    Row,
    check_limit,
    chunks,
    decode,
    encode,
    moment_of,
    scope_columns,
    scope_of_row,
)
from perdure.backends.ledgers.sql.tables import episodes as messages
from perdure.backends.ledgers.sql.tables import history, insert_new, namings, session_turns, sessions
from perdure.domain.job import Job
from perdure.domain.scope import Scope
from perdure.domain.session import Said, Session, SessionTurn, session_id

# Namings: which turns, states and links name a message or a memory, so that its erasure finds them.

Place = Literal["turn", "state", "link"]


def note_references(connection: Connection, place: Place, owner_id: str, named: Sequence[str], number: int = 0) -> None:
    """Note what a place names."""
    rows = [{"named_id": id, "place": place, "owner_id": owner_id, "number": number} for id in dict.fromkeys(named)]
    if rows:
        connection.execute(insert_new(connection, namings), rows)


def drop_references(connection: Connection, places: Sequence[Place], owner_ids: Sequence[str]) -> None:
    """These places name nothing any more."""
    for some in chunks(owner_ids):
        connection.execute(delete(namings).where(namings.c.owner_id.in_(some), namings.c.place.in_(places)))


def naming(connection: Connection, place: Place, ids: Sequence[str]) -> list[str]:
    """The owners of such places that name one of the ids."""
    found: dict[str, None] = {}
    for some in chunks(ids):
        query = select(namings.c.owner_id).where(namings.c.named_id.in_(some), namings.c.place == place).distinct()
        found.update(dict.fromkeys(connection.execute(query.order_by(namings.c.owner_id)).scalars()))
    return list(found)


def turns_naming(connection: Connection, ids: Sequence[str]) -> list[tuple[str, int]]:
    """The turns that name one of the ids, by session and number."""
    found: dict[tuple[str, int], None] = {}
    for some in chunks(ids):
        query = select(namings.c.owner_id, namings.c.number).where(
            namings.c.named_id.in_(some), namings.c.place == "turn"
        )
        found.update(dict.fromkeys((row.owner_id, row.number) for row in connection.execute(query.distinct())))
    return list(found)


def forget(connection: Connection, ids: Sequence[str]) -> None:
    """Nothing names these ids any more."""
    for some in chunks(ids):
        connection.execute(delete(namings).where(namings.c.named_id.in_(some)))


# ---------------------------------------------------------------------- turns
def keep(tx: Transaction, said: Sequence[Said]) -> list[SessionTurn | None]:
    """All that was said, in its order, in one transaction: messages, turns, jobs, fingerprints."""
    injected: dict[Scope, set[str]] = {}
    for each in said:
        if each.injected:
            injected.setdefault(each.scope, set()).update(each.injected)
    for scope, fingerprints in injected.items():
        caches.add_fingerprints(tx, scope, fingerprints)
    _episodes.add_episodes(tx.connection, [episode for each in said for episode in each.episodes])
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
    _jobs.add(tx, said.jobs(turn.session_id, turn.number))
    return turn


def open_turn(  # noqa: PLR0917 - the transaction and what the port takes
    tx: Transaction, name: str, scope: Scope, episodes: Sequence[str], at: str, store: str = ""
) -> SessionTurn:
    """Begin the next turn; of two who do so at once the second counts the first one's, for writers take turns."""
    moment, row = moment_of(at, "at"), _row_of(tx.connection, name, scope, store)
    id = session_id(name, scope, store) if row is None else row["id"]
    number = 1 if row is None else row["turns"] + 1
    if row is None:
        made = {
            "id": id,
            "name": name,
            **scope_columns(scope),
            "turns": 1,
            "read_turns": 0,
            "started_at": moment,
            "last_at": moment,
            "store": store,
        }
        tx.connection.execute(insert(sessions), made)
    else:
        values = {
            "turns": number,
            "last_at": max(row["last_at"], moment),
            "ended_at": None,
            "store": store or row["store"],
        }
        tx.connection.execute(update(sessions).where(sessions.c.id == id).values(values))
    said = tuple(dict.fromkeys(episodes))
    tx.connection.execute(
        insert(session_turns),
        {"session_id": id, "number": number, "episodes": encode(list(said), "episodes"), "at": moment},
    )
    note_references(tx.connection, "turn", id, said, number)
    return SessionTurn(session_id=id, number=number, episodes=said, at=moment)


def add_to_turn(  # noqa: PLR0917 - the transaction and what the port takes
    tx: Transaction, session_id: str, number: int, episodes: Sequence[str], at: str, jobs: Sequence[Job] = ()
) -> bool:
    """More was said in a turn."""
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
    _jobs.add(tx, jobs)
    return True


def turns(tx: Transaction, session_id: str, first: int = 1, last: int | None = None) -> list[SessionTurn]:
    """Some turns of a session."""
    query = select(session_turns).where(session_turns.c.session_id == session_id, session_turns.c.number >= first)
    if last is not None:
        query = query.where(session_turns.c.number <= last)
    rows = tx.connection.execute(query.order_by(session_turns.c.number)).mappings()
    return [
        SessionTurn(session_id=session_id, number=row["number"], episodes=tuple(decode(row["episodes"])), at=row["at"])
        for row in rows
    ]


# ---------------------------------------------------------------------- sessions
def _row(connection: Connection, id: str) -> Row | None:
    return connection.execute(select(sessions).where(sessions.c.id == id)).mappings().first()


def _row_of(connection: Connection, name: str, scope: Scope, store: str) -> Row | None:
    """The store's session of this name; else one of before stores were told apart, which goes on as this store's."""
    ids = [session_id(name, scope, store), session_id(name, scope)]
    query = select(sessions).where(sessions.c.id.in_(ids), *_of(store))
    rows = {row["id"]: row for row in connection.execute(query).mappings()}
    return next((rows[id] for id in ids if id in rows), None)


def _of(store: str | None) -> list[ColumnElement[bool]]:
    """Those of a store, and those of none; without a store all."""
    return [sessions.c.store.in_(("", store))] if store else []


def _sessions(connection: Connection, rows: Sequence[Row], now: str) -> list[Session]:
    """The sessions of rows, without the states that may not be shown."""
    kept = [row["id"] for row in rows if row["state"] is not None and row["state_until"] > now]
    shown = set(kept) - _of_hidden(connection, kept)
    return [_session(row, row["id"] in shown) for row in rows]


def _of_hidden(connection: Connection, ids: Sequence[str]) -> set[str]:
    """Which of these sessions have a state that was made of a message which is hidden now."""
    found: set[str] = set()
    for some in chunks(ids):
        query = select(namings.c.owner_id).where(
            namings.c.owner_id.in_(some),
            namings.c.place == "state",
            namings.c.named_id == messages.c.id,
            messages.c.hidden == 1,
        )
        found.update(connection.execute(query).scalars())
    return found


def _session(row: Row, shown: bool) -> Session:
    return Session(
        id=row["id"],
        name=row["name"],
        scope=scope_of_row(row),
        store=row["store"],
        turns=row["turns"],
        read_turns=row["read_turns"],
        started_at=row["started_at"],
        last_at=row["last_at"],
        ended_at=row["ended_at"],
        state=decode(row["state"]) if shown else {},
        state_until=row["state_until"] if shown else None,
    )


def get(tx: Transaction, name: str, scope: Scope, store: str = "") -> Session | None:
    """One session, by what its id is made of."""
    row = _row_of(tx.connection, name, scope, store)
    return None if row is None else _sessions(tx.connection, [row], tx.now)[0]


def by_id(tx: Transaction, id: str) -> Session | None:
    """One session."""
    row = _row(tx.connection, id)
    return None if row is None else _sessions(tx.connection, [row], tx.now)[0]


def _inside(scope: Scope | None) -> list[ColumnElement[bool]]:
    walls = {} if scope is None else scope.given()
    return [sessions.c[name] == value for name, value in walls.items()]


def page(tx: Transaction, scope: Scope, limit: int = 100) -> list[Session]:
    """Sessions inside a scope, latest first."""
    check_limit(limit)
    query = select(sessions).where(*_inside(scope)).order_by(sessions.c.last_at.desc(), sessions.c.id.desc())
    return _sessions(tx.connection, tx.connection.execute(query.limit(limit)).mappings().all(), tx.now)


def idle(
    tx: Transaction, before: str, limit: int = 100, scope: Scope | None = None, store: str | None = None
) -> list[Session]:
    """Sessions that are silent and not done with."""
    check_limit(limit)
    left = or_(sessions.c.ended_at.is_(None), sessions.c.read_turns < sessions.c.turns)
    query = select(sessions).where(left, sessions.c.last_at < moment_of(before, "before"), *_inside(scope), *_of(store))
    query = query.order_by(sessions.c.last_at, sessions.c.id).limit(limit)
    return _sessions(tx.connection, tx.connection.execute(query).mappings().all(), tx.now)


def claim(tx: Transaction, ids: Sequence[str], store: str) -> None:
    """Sessions that are of no store are this one's from now on."""
    for some in chunks(ids):
        query = update(sessions).where(sessions.c.id.in_(some), sessions.c.store == "")
        tx.connection.execute(query.values(store=store))


def mark_read(tx: Transaction, session_id: str, through: int) -> None:
    """Count what was read; nothing is ever unread again."""
    row = _row(tx.connection, session_id)
    if row is not None:
        read = max(row["read_turns"], min(through, row["turns"]))
        tx.connection.execute(update(sessions).where(sessions.c.id == session_id).values(read_turns=read))


def end(tx: Transaction, session_id: str, at: str, *, silent_since: str | None = None) -> bool:
    """End a session that stands open."""
    still = [] if silent_since is None else [sessions.c.last_at < moment_of(silent_since, "silent_since")]
    query = update(sessions).where(sessions.c.id == session_id, sessions.c.ended_at.is_(None), *still)
    return tx.connection.execute(query.values(ended_at=moment_of(at, "at"))).rowcount > 0


# ---------------------------------------------------------------------- states
def put_state(
    tx: Transaction,
    session_id: str,
    state: Mapping[str, Any],
    until: str,
    *,
    episodes: Sequence[str] = (),
    memories: Sequence[str] = (),
) -> bool:
    """Keep a state, unless what it was made of is erased by now; those whose time is over go."""
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
    """Whether all these messages are there, and none of these memories was erased."""
    if not are_there(connection, episodes):
        return False
    for some in chunks(memories):
        erased = select(history.c.id).where(history.c.memory_id.in_(some), history.c.erased == 1).limit(1)
        if connection.execute(erased).first() is not None:
            return False
    return True


def are_there(connection: Connection, episodes: Sequence[str]) -> bool:
    """Whether all these messages are kept."""
    for some in chunks(list(dict.fromkeys(episodes))):
        there = select(func.count()).select_from(messages).where(messages.c.id.in_(some))
        if connection.execute(there).scalar_one() < len(some):
            return False
    return True


def _drop_states(connection: Connection, ids: Sequence[str]) -> None:
    for some in chunks(ids):
        connection.execute(update(sessions).where(sessions.c.id.in_(some)).values(state=None, state_until=None))
    drop_references(connection, ["state"], ids)


# ---------------------------------------------------------------------- erasure
def ids_inside(connection: Connection, scope: Scope | None) -> list[str]:
    """The sessions that go with a whole scope."""
    if scope is None:
        return []
    return list(connection.execute(select(sessions.c.id).where(*_inside(scope))).scalars())


def touched(connection: Connection, ids: Sequence[str], scope: Scope | None) -> int:
    """How many sessions go with a scope, or lose a state that was made of these messages and memories."""
    return len({*ids_inside(connection, scope), *naming(connection, "state", ids)})


def erase(connection: Connection, ids: Sequence[str], scope: Scope | None) -> int:
    """Let go of a scope's sessions, of the states that were made of these ids, and of the ids in turns; see `touched`.

    A turn stays, so that numbers have no gaps.
    """
    count = touched(connection, ids, scope)
    _drop_states(connection, naming(connection, "state", ids))
    gone = ids_inside(connection, scope)
    for some in chunks(gone):
        connection.execute(delete(session_turns).where(session_turns.c.session_id.in_(some)))
        connection.execute(delete(sessions).where(sessions.c.id.in_(some)))
    drop_references(connection, ["turn", "state"], gone)
    erased = set(ids)
    for id, number in turns_naming(connection, ids):
        turn = and_(session_turns.c.session_id == id, session_turns.c.number == number)
        said = decode(connection.execute(select(session_turns.c.episodes).where(turn)).scalar_one())
        left = encode([each for each in said if each not in erased], "episodes")
        connection.execute(update(session_turns).where(turn).values(episodes=left))
    return count


def check(connection: Connection) -> list[str]:
    """Sentences about turns that are not counted, or are counted and not there."""
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
    lost = select(func.count()).select_from(session_turns)
    count = connection.execute(lost.where(session_turns.c.session_id.not_in(select(sessions.c.id)))).scalar_one()
    return [*sentences, *([f"{count} turns are of no session"] if count else [])]
