"""How a change becomes rows of the vector store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perdure.backends.vector_stores.base import Point, Vector
from perdure.domain.event import Change, Episode
from perdure.domain.memory import VERSION, MemoryItem, new_id, text_hash
from perdure.domain.scope import Scope
from perdure.pipeline.firewall import origin_of, suspect


def puts_of(change: Change, vectors: Mapping[str, Vector | None]) -> list[Point]:
    """The rows that a change writes: the memory as it now stands, and the version that keeps its old text."""
    return [Point(item.id, vectors.get(item.id), item.to_payload()) for item in (change.after, change.keep) if item]


def deletes_of(change: Change) -> list[str]:
    """The rows that a change removes: a deleted memory, or one that an update replaced under a new id."""
    if change.before is None or (change.after is not None and change.after.id == change.before.id):
        return []
    return [change.before.id]


def net_rows(changes: Sequence[Change], vectors: Mapping[str, Vector | None]) -> tuple[list[Point], list[str]]:
    """The rows that a batch of changes, in order, leaves written and removed."""
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
    """The messages that are memories themselves, and need no row of their own beside these."""
    return {id for change in changes if change.after and change.after.role != "memory" for id in change.sources}


def version_of(before: MemoryItem, *, untold_at: str, replaced_by: str | None = None) -> MemoryItem:
    """The hidden row that keeps a text after it was replaced or deleted, with the span in which it was told."""
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
    """A message as an item of kind `messages`, for stores in which messages are searched too."""
    return MemoryItem(
        id=episode.id,
        memory=episode.content,
        hash=text_hash(episode.content),
        scope=Scope(**episode.scope),
        created_at=episode.created_at,
        updated_at=episode.created_at,
        told_at=episode.told_at,
        valid_from=episode.told_at,
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
    """Note the vectors of the rows that a change leaves behind, by the ids of these rows."""
    if change.after is not None:
        vectors[change.after.id] = vector
    if change.keep is not None:
        vectors[change.keep.id] = keep_vector
