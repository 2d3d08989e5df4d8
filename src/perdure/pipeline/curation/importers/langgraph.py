"""Items of a LangGraph store: what `store.search` gives (`item.dict()`), and rows of the tables behind it.

    {"namespace": ["memories", "ana"], "key": ..., "value": {...}, "created_at": ..., "updated_at": ...}
    {"prefix": "memories.ana", "key": ..., "value": {...} or its JSON text, ...}

(langgraph 1.2: `langgraph/store/base`, `store/postgres`, `store/sqlite`; LangMem 0.0.30 puts `{"kind": "Memory",
"content": {"content": ...}}` into the value.) Which part of a namespace is the user is known to nobody but its author,
who says so by a pattern: `memories,{user_id}`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from perdure.domain.errors import InvalidInputError
from perdure.domain.memory import read_id
from perdure.domain.scope import OWNER_FIELDS
from perdure.pipeline.curation.importers import records
from perdure.pipeline.curation.importers.json_pieces import DamagedError, load

SOURCE: Final = "import:langgraph"
_TEXTS = ("content", "memory", "text", "data", "fact", "value")
"""Keys under which people put the text of a memory; the first that holds text is taken."""
_ANY = "*"


@dataclass(frozen=True, slots=True)
class NamespacePattern:
    """Which namespaces are memories, and which of their labels are whose: `memories,{user_id}`, `*` for any label."""

    labels: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> NamespacePattern:
        """The pattern that a text writes; InvalidInputError if it names an axis that there is not, or one twice."""
        labels = tuple(label.strip() for label in text.split(","))
        named = [label[1:-1] for label in labels if _is_axis(label)]
        wrong = [name for name in named if name not in OWNER_FIELDS]
        if wrong or not all(labels) or len(set(named)) < len(named):
            raise InvalidInputError(
                f"a namespace pattern is labels between commas, such as memories,{{user_id}}, with at most one each of "
                f"{', '.join(f'{{{name}}}' for name in OWNER_FIELDS)}, not {text!r}",
                field="namespace",
                value=text,
            )
        return cls(labels)

    def scope_of(self, namespace: Sequence[str]) -> dict[str, str] | None:
        """The axes of scope that the namespace gives; None if it is another namespace."""
        if len(namespace) != len(self.labels):
            return None
        scope: dict[str, str] = {}
        for label, given in zip(self.labels, namespace, strict=True):
            if _is_axis(label):
                scope[label[1:-1]] = given
            elif label not in (_ANY, given):
                return None
        return scope


def _is_axis(label: str) -> bool:
    return label.startswith("{") and label.endswith("}")


def is_langgraph(value: Any) -> bool:
    """Whether an object is an item of a store or a row of its table."""
    return (
        isinstance(value, Mapping)
        and {"key", "value"} <= value.keys()
        and bool(not value.keys().isdisjoint({"namespace", "prefix"}))
    )


class LangGraphReader(records.Reader):
    """Reads items; `patterns` say which part of a namespace is whose, the first that fits."""

    def __init__(self, patterns: Sequence[NamespacePattern] = ()) -> None:
        self._patterns = patterns
        self._homes: dict[str, tuple[str, ...]] = {}
        """The namespace in which each UUID was a key first: it is unique only there."""

    def read(self, value: Any, where: str) -> Iterator[records.Found]:
        """One item as a fact."""
        if not is_langgraph(value):
            yield records.Damaged("it has no `namespace`, `key` and `value`", where)
            return
        namespace = _namespace(value)
        if namespace is None or not isinstance(value["key"], str):
            yield records.Damaged("its namespace is no list of labels, or its key is no text", where)
            return
        place = f"{where} ({records.short('/'.join((*namespace, value['key'])))})"
        scope: dict[str, str] | None = {}
        if self._patterns:
            scopes = [pattern.scope_of(namespace) for pattern in self._patterns]
            scope = next((each for each in scopes if each is not None), None)
        if scope is None:
            yield records.LeftOut("in a namespace that no pattern fits", place)
        else:
            yield self._fact(value, namespace, scope, place)

    def _fact(
        self, item: Mapping[str, Any], namespace: tuple[str, ...], scope: dict[str, str], place: str
    ) -> records.Found:
        try:
            value = load(item["value"]) if isinstance(item["value"], str) else item["value"]
        except DamagedError:
            value = item["value"]  # a text that is no JSON is the memory itself
        text, rest = _text_and_rest(value)
        if not text.strip():
            return records.Damaged("its value holds no text", place)
        key = item["key"]
        home = self._homes.setdefault(key, namespace) if read_id(key) else None
        id = records.lasting_id(key if home == namespace else None, "langgraph", list(namespace), key)
        fields = {"namespace": list(namespace), **({} if id == key else {"key": key})}
        line: dict[str, Any] = {
            **scope,
            "memory": text,
            "id": id,
            "source": SOURCE,
            "metadata": records.merged(rest, "langgraph", fields),
        }
        line |= {
            name: records.told_time(item[name]) for name in ("created_at", "updated_at") if item.get(name) is not None
        }
        last = line.get("updated_at") or line.get("created_at")
        return records.ForeignFact(place, line if last is None else {**line, "timestamp": last})


def _namespace(value: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The labels: a list, or a table's prefix, which joins them by full stops and lets none have one."""
    given = value["namespace"] if "namespace" in value else value["prefix"]
    if isinstance(given, str):
        return tuple(given.split("."))
    if isinstance(given, Sequence) and all(isinstance(label, str) for label in given):
        return tuple(given)
    return None


def _text_and_rest(value: Any) -> tuple[str, dict[str, Any]]:
    """The text of a value and what it has besides; a value without a text is told key by key."""
    if isinstance(value, str):
        return value, {}
    if not isinstance(value, Mapping):
        return ("" if value is None else _told(value)), {}
    for name in _TEXTS:
        if isinstance(value.get(name), str) and value[name].strip():
            return value[name], {key: each for key, each in value.items() if key != name}
    content = value.get("content")
    if isinstance(content, Mapping) and content:  # LangMem's, where it is an instance of a schema
        text, rest = _text_and_rest(content)
        outer = {key: each for key, each in value.items() if key != "content"}
        return text, {**rest, **outer}
    if not value:
        return "", {}
    return _told(value), {"value": dict(value)}


def _told(value: Any) -> str:
    """A value without a text as one: `name: Ana; languages: ["pt", "en"]`."""
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {_told(each)}" for key, each in value.items())
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
