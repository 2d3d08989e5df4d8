"""The feed: which rows of a store may have changed inside a scope since a moment, for those who keep copies of them."""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from perdure.backends.ledgers._history import within
from perdure.backends.ledgers._rows import change_from_json
from perdure.backends.ledgers._tables import CLEARED, counters, episodes, history, journal, marks
from perdure.backends.ledgers.base import Mark, Touched
from perdure.domain.scope import Scope

_COUNTERS = select(counters.c.name, counters.c.value).where(counters.c.name.in_(("change", "episode")))
_CLEARED = select(marks.c.value).where(marks.c.name == CLEARED)
_FIRST_WRITTEN = select(func.min(journal.c.sequence)).where(journal.c.state == "written")


def touched(connection: Connection, scope: Scope, since: Mark | None) -> Touched:
    """What happened since a mark; with None only the mark of now."""
    values = {name: int(value) for name, value in connection.execute(_COUNTERS)}
    now = Mark(values.get("change", 0), values.get("episode", 0))
    if since == now:  # nothing was written anywhere; a batch on its way would have moved the counter
        return Touched(now, (), ())
    first = connection.execute(_FIRST_WRITTEN).scalar()
    if first is not None:  # its history may become visible after that of later numbers
        now = Mark(min(now.change, first - 1), now.episode)
    if since is None:
        return Touched(now, (), ())
    cleared = connection.execute(_CLEARED).scalar()
    another = since.change > values.get("change", 0) or since.episode > values.get(
        "episode", 0
    )  # an earlier copy of it
    if another or (cleared is not None and since.change < int(cleared)):
        return Touched(now, (), (), reset=True)
    written: dict[str, None] = {}
    gone: dict[str, None] = {}
    rows = select(history.c.memory_id, history.c.event, history.c.change).where(
        within(scope), history.c.seq > since.change
    )
    for id, event, text in connection.execute(rows.order_by(history.c.seq)):
        change = None if text is None else change_from_json(text)
        deleted, kept = (gone, written) if event == "DELETE" else (written, gone)
        kept.pop(id, None)
        deleted[id] = None
        if change is not None:
            if change.before is not None and change.before.id != id:
                written.pop(change.before.id, None)
                gone[change.before.id] = None
            for message in change.hides:
                kept.pop(message, None)
                deleted[message] = None
    said = select(episodes.c.id).where(
        *(episodes.c[name] == value for name, value in scope.given().items()), episodes.c.seq > since.episode
    )
    for id in connection.execute(said.order_by(episodes.c.seq)).scalars():
        if id not in gone:
            written[id] = None
    return Touched(now, tuple(written), tuple(gone))
