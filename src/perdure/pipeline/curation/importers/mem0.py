"""mem0's memories: what `get_all` of the library and of the platform gives, API pages, and rows of its vector stores.

    {"id", "memory", "hash", "user_id", "agent_id", "run_id", "metadata", "created_at", "updated_at", ...}
    {"id", "payload": {"data", "user_id", ...}}                       a point of Qdrant, a row of pgvector

(mem0 2.2.1: `mem0/memory/main.py`, and the platform's API reference.) A memory keeps its id, scope, metadata and
times. The library knows no app: `app_id` and the rest of the platform's fields stay as metadata.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, Final

from perdure.domain.clock import iso, read_moment
from perdure.domain.text.readable import kind_of
from perdure.pipeline.curation.importers import records

SOURCE: Final = "import:mem0"
_MARKS = frozenset({"categories", "app_id", "immutable", "expiration_date", "organization", "owner", "lifecycle_state",
                    "structured_attributes", "actor_id", "attributed_to", "memory_type", "hash"})  # fmt: skip
"""Keys of mem0's memories that perdure's own lines do not have; `hash` alone both have."""
_OURS = frozenset({"timestamp", "told_at", "valid_from", "valid_to", "expires_at", "type", "importance", "source",
                   "tags", "kind", "access_count", "sources"})  # fmt: skip
_SCOPES = ("user_id", "agent_id", "run_id")
_TAKEN = frozenset({"id", "memory", "metadata", "created_at", "updated_at", "expiration_date", *_SCOPES})
_DERIVED = frozenset({"hash", "score", "text_lemmatized", "input", "score_breakdown", "score_details"})
"""What mem0 makes from the text or for one answer, and the messages that a memory came from."""
_PAST = ("superseded", "merged", "replaced", "archived")
"""States in which the platform keeps a memory that another has taken the place of."""


def is_mem0(value: Any) -> bool:
    """Whether an object is a memory of mem0, a point of its store, or an event of its history."""
    if not isinstance(value, Mapping):
        return False
    if "memory" in value:
        return bool(value.keys() & _MARKS) and not value.keys() & _OURS
    return _is_point(value) or _is_event(value)


def _is_point(value: Mapping[str, Any]) -> bool:
    payload = value.get("payload")
    return isinstance(payload, Mapping) and isinstance(payload.get("data"), str)


def _is_event(value: Mapping[str, Any]) -> bool:
    return {"memory_id", "old_memory", "new_memory"} <= value.keys()


class Mem0Reader(records.Reader):
    """Reads memories of mem0."""

    def read(self, value: Any, where: str) -> Iterator[records.Found]:
        """One memory as a fact."""
        if not isinstance(value, Mapping):
            yield records.Damaged(f"a memory must be an object, not {kind_of(value)}", where)
        elif _is_event(value):
            yield records.LeftOut(
                "an event of mem0's history: it says no scope, and the memories themselves are enough", where
            )
        elif _is_point(value):
            payload = dict(value["payload"])
            yield _fact({"id": value.get("id"), "memory": payload.pop("data"), **_with_metadata(payload)}, where)
        elif "memory" not in value:
            yield records.Damaged("it has no `memory`", where)
        else:
            yield _fact(value, where)


def _with_metadata(payload: dict[str, Any]) -> dict[str, Any]:
    """A point's payload in the form that `get_all` gives it: a caller's metadata lie beside mem0's own fields."""
    own = (_TAKEN | _DERIVED | _MARKS | {"role"}) - {"metadata"}
    rest = {key: value for key, value in payload.items() if key not in own}
    return {**{key: value for key, value in payload.items() if key in own}, "metadata": rest}


def _fact(value: Mapping[str, Any], where: str) -> records.Found:
    metadata = value.get("metadata")
    if metadata is not None and not isinstance(metadata, Mapping):
        return records.Damaged("metadata must be an object", where)
    place = f"{where} ({records.short(value['id'])})" if value.get("id") else where
    if not isinstance(value["memory"], str) or not value["memory"].strip():
        return records.Damaged("its memory is no text, or empty", place)
    extra = {key: each for key, each in value.items() if key not in _TAKEN | _DERIVED and each not in (None, [], {})}
    if extra.get("immutable") is False:
        del extra["immutable"]
    line = {name: value[name] for name in _SCOPES if value.get(name) is not None}
    line |= {"memory": value["memory"], "source": SOURCE}
    if value.get("id") is not None:
        line["id"] = records.lasting_id(value["id"], "mem0", value["id"])
        if line["id"] != value["id"]:
            extra["mem0_id"] = value["id"]
    expires = _expiry(value.get("expiration_date"))
    if expires is not None:
        line["expires_at"] = expires
    elif value.get("expiration_date") is not None:
        extra["expiration_date"] = value["expiration_date"]
    line |= {
        name: records.told_time(value[name]) for name in ("created_at", "updated_at") if value.get(name) is not None
    }
    # The text as it stands was said when it was last changed, and what was said since may correct it.
    last = line.get("updated_at") or line.get("created_at")
    if last is not None:
        line["timestamp"] = last
        if records.moment_of(last) is not None and _is_past(value):
            line |= {"valid_to": last, "valid_from": line.get("created_at", last)}
    line["metadata"] = records.merged(metadata or {}, "mem0", extra)
    return records.ForeignFact(place, line)


def _expiry(value: object) -> str | None:
    """The first moment at which the memory is not shown: mem0 shows it through the whole of the day, in UTC."""
    moment = read_moment(value) if isinstance(value, str) else None
    if moment is None:
        return None
    try:
        return iso(moment + timedelta(days=1)) if len(str(value)) == len("2030-01-31") else iso(moment)
    except OverflowError:
        return None


def _is_past(value: Mapping[str, Any]) -> bool:
    return value.get("replaced_by") is not None or value.get("lifecycle_state") in _PAST
