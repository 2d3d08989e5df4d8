"""Check the tags of a change and map it to rows of the vector store."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perdure.backends.vector_stores.base import Point
from perdure.domain.errors import KEPT, InvalidInputError
from perdure.domain.memory import VERSION, MemoryItem, new_id
from perdure.domain.scope import OWNER_FIELDS, Scope
from perdure.domain.text.readable import shown

if TYPE_CHECKING:
    from perdure.backends.ledgers.base import JournalEntry, Remembered
    from perdure.backends.vector_stores.base import Vector
    from perdure.domain.errors import PerdureError
    from perdure.domain.event import Change, Episode
    from perdure.domain.job import Job

_SOURCE = re.compile(r"[A-Za-z][A-Za-z0-9_-]*:[^\s\x00-\x1f\x7f]+")


def is_source(value: object) -> bool:
    """Whether a value names an author or a source, as `prefix:id`."""
    return isinstance(value, str) and _SOURCE.fullmatch(value) is not None


def check_tags(changes: Iterable[Change]) -> None:
    """Reject changes that leave a team's memory without tags, or tags without a team."""
    for change in changes:
        if change.after is not None:
            check_item(change.after)


def check_item(item: MemoryItem) -> MemoryItem:
    """Return the memory if it is valid; `check_tags` for one that comes from elsewhere."""
    given = item.scope.given()
    if "team_id" not in given:
        if item.tags is not None:
            raise InvalidInputError("tags are a team's: the memory has no team_id", field="team_id", value=None)
        return item
    if item.tags is None:
        raise InvalidInputError(
            f"a memory of the team {shown(given['team_id'])} needs its tags: visibility, truth_level and"
            f" validation_status",
            field="tags",
            value=None,
        )
    if item.confidence is None or not 0 <= item.confidence <= 1:
        raise InvalidInputError(
            f"confidence of a team's memory must be a number from 0 to 1, not {shown(item.confidence)}",
            field="confidence",
            value=item.confidence,
        )
    if not is_source(item.source):
        raise InvalidInputError(
            f"source of a team's memory must be prefix:id, such as agent-runtime:run_1, not {shown(item.source)}",
            field="source",
            value=item.source,
        )
    for name in OWNER_FIELDS:
        if name in given:
            raise InvalidInputError(
                f"a team's memory has no {name}: who wrote it is written_by", field=name, value=given[name]
            )
    return item


# The writes of one batch of changes, computed before any of them is started.

_KEPT = "the change is kept in the journal, and the next write or opening that can will make it: do not make it again"


def tell_what_became(error: PerdureError, *, refused: bool) -> None:
    """Add to a store's failure whether the change will never happen, or later."""
    if not refused:
        error.amend(_KEPT, code=KEPT)
    elif "nothing was changed" not in error.message:
        error.amend("nothing was changed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """The writes of one batch: those of the ledger, and the resulting rows of the store."""

    batch: str
    entries: Sequence[JournalEntry]
    episodes: Sequence[Episode]
    answer: Remembered | None
    puts: Sequence[Point]
    deletes: Sequence[str]
    jobs: Sequence[Job]  # the jobs that follow


def puts_of(change: Change, vectors: Mapping[str, Vector | None]) -> list[Point]:
    """Return the rows that a change writes: the current memory, and the version that keeps its old text."""
    return [Point(item.id, vectors.get(item.id), item.to_payload()) for item in (change.after, change.keep) if item]


def deletes_of(change: Change) -> list[str]:
    """Return the rows that a change removes: a deleted memory, or one replaced under a new id."""
    if change.before is None or (change.after is not None and change.after.id == change.before.id):
        return []
    return [change.before.id]


def net_rows(changes: Sequence[Change], vectors: Mapping[str, Vector | None]) -> tuple[list[Point], list[str]]:
    """Return the rows that a batch of changes, in order, finally writes and removes."""
    puts: dict[str, Point] = {}
    deletes: dict[str, None] = {}
    for change in changes:
        for id in deletes_of(change):
            puts.pop(id, None)
            deletes[id] = None
        for point in puts_of(change, vectors):
            deletes.pop(point.id, None)
            puts[point.id] = point
    return list(puts.values()), list(deletes)


def stored_as_said(changes: Sequence[Change]) -> set[str]:
    """Return the messages that are memories themselves, and need no separate row."""
    found: set[str] = set()
    for change in changes:
        if change.after is not None and change.after.role != "memory":
            found.update(change.sources, change.after.sources)  # an undo names sources in its memory alone
    return found


def version_of(before: MemoryItem, *, untold_at: str, replaced_by: str | None = None) -> MemoryItem:
    """Return the hidden row that keeps a replaced or deleted text, with the period in which it was current."""
    return before.with_(
        id=new_id(),
        state=VERSION,
        version_of=before.id,
        untold_at=max(untold_at, before.told_at),
        replaced_by=replaced_by,
        score=None,
        similarity=None,
        explanation=None,
    )


def episode_item(episode: Episode) -> MemoryItem:
    """Return a message as an item of kind `messages`, for stores in which messages are searched too."""
    from perdure.pipeline.quarantine import origin_of, suspect  # who only reads does not wait for its patterns

    return MemoryItem.new(
        episode.id,
        episode.content,
        Scope(**episode.scope),
        episode.told_at,
        created_at=episode.created_at,
        updated_at=episode.created_at,
        kind="messages",
        origin=origin_of(episode.role),
        quarantined=suspect(episode.content, episode.role),
        role=episode.role,
        speaker=episode.name,
        sources=(episode.id,),
        position=episode.position,
    )


def note_vectors(
    vectors: dict[str, Vector | None], change: Change, vector: Vector | None, keep_vector: Vector | None
) -> None:
    """Note the vectors of a change's rows by their ids."""
    if change.after is not None:
        vectors[change.after.id] = vector
    if change.keep is not None:
        vectors[change.keep.id] = keep_vector
