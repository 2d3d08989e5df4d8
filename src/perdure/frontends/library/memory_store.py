"""AsyncMemoryStore and MemoryStore, which store, find and erase a user's memories one by one."""

from __future__ import annotations

import builtins
import os
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Self

from perdure.domain.errors import ClosedError, ConfigError, InvalidInputError, NotFoundError, PerdureError, ScopeError
from perdure.domain.event import ErasureReport
from perdure.domain.maintenance import Insight
from perdure.domain.memory import MemoryItem, read_id
from perdure.domain.scope import Scope
from perdure.domain.stored_memory import MemoryListing, RetrieveResult, StoredMemory, read_type
from perdure.domain.text.readable import shown
from perdure.engine import requests
from perdure.engine.core.access import scoped
from perdure.engine.requests import ForgetRequest
from perdure.engine.write.explicit import Statement
from perdure.frontends.library.closing import AsyncClosing, Closing
from perdure.frontends.library.memory import AsyncMemory, Memory
from perdure.frontends.library.portal import blocking

Given = str | Mapping[str, Any] | StoredMemory
"""A memory as input of `store` and `update`: its text, or an object with the fields of `StoredMemory`."""

RETRIEVE_LIMIT, LIST_LIMIT = 5, 20  # how many memories `retrieve` and `list` give by default
RETRIEVE_THRESHOLD = 0.6  # the least score by default; it is compared with the calibrated score, not with the cosine
MOST_LISTED = 100  # the largest limit of `list`; greater ones are lowered to it
_WALKED = 500  # memories read at a time for a list
_OWN = ("created_at", "updated_at", "access_count")  # fields that the store itself sets
_FIELDS = ("id", "type", "content", "user_id", "project_id", "source", "importance", *_OWN)
_FACTS = {"kind": "facts"}  # only facts: messages are not memories of this store, even if they are searched


class AsyncMemoryStore(AsyncClosing):
    """A user's memories, stored, recalled, corrected and forgotten one by one.

    It uses an AsyncMemory, and sees and changes only what is in that one's scope. Every memory belongs to a user, and
    may belong to a project of theirs. Ids are returned with `mem_`, and accepted with and without. Construct it over an
    open memory, which it does not close, or with `local`. All errors are PerdureError.
    """

    def __init__(self, memory: AsyncMemory) -> None:
        if not isinstance(memory, AsyncMemory):
            raise ConfigError(f"an AsyncMemoryStore stands on an AsyncMemory, not on {shown(memory)}", field="memory")
        self._memory = memory
        self._engine = memory._engine
        self._is_own = False
        self._is_closed = False

    @classmethod
    def local(cls, path: str | os.PathLike[str] = "~/.memory") -> Self:
        """Open a store with the embedded providers in one folder: no key, no server, no download."""
        self = cls(AsyncMemory.local(path))
        self._is_own = True
        return self

    async def store(
        self,
        memory: Given,
        *,
        user_id: str | None = None,
        project_id: str | None = None,
        type: str | None = None,
        source: str | None = None,
        importance: float | None = None,
        id: str | None = None,
    ) -> StoredMemory:
        """Store a new memory as it is, without extraction; pass fields in the object or as arguments.

        Without a `type` it is semantic; `source` says where it came from (else `api`); `importance` is from 0 to 1.
        Your own `id` is a UUID, with or without `mem_`; one that was ever used is a ConflictError. The store itself
        sets `created_at` and `access_count`: passing them is InvalidInputError.
        """
        fields = _read(memory, user_id=user_id, project_id=project_id, type=type, source=source,
                       importance=importance, id=id)  # fmt: skip
        for name in _OWN:
            if fields.pop(name, None):
                raise InvalidInputError(f"{name} is set by the store: leave it out", field=name)
        scope = self._scope(fields.pop("user_id", None), fields.pop("project_id", None))
        new_id = fields.pop("id", None)
        defaults = {"type": "semantic", "source": "api", "importance": 0.5}
        statement = _statement({**defaults, **fields})
        if statement.content is None:
            raise InvalidInputError("content must be text with something in it: it is missing", field="content")
        item = await self._engine.explicit.store(statement, scope, None if new_id is None else _new_id(new_id))
        return StoredMemory.of(item)

    async def update(
        self,
        id: str,
        memory: Given | None = None,
        *,
        type: str | None = None,
        source: str | None = None,
        importance: float | None = None,
    ) -> StoredMemory:
        """Set the given fields; the id stays, and `undo` restores the earlier state, which stays as a version.

        You may pass back a whole memory from `get` with changes: its id, user and project must be the same, and fields
        that the store itself sets are ignored. NotFoundError for an unknown id.
        """
        fields = _read(memory, type=type, source=source, importance=importance)
        before = await self._item(id)
        for name, standing in (
            ("id", before.id),
            ("user_id", before.scope.user_id),
            ("project_id", before.scope.project_id),
        ):
            value = fields.pop(name, standing)
            if (read_id(value) if name == "id" else value) != standing:
                raise InvalidInputError(f"{name} of a memory cannot be changed to {shown(value)}", field=name)
        for name in _OWN:
            fields.pop(name, None)
        if not fields:
            raise InvalidInputError(
                "an update must give content, type, source or importance", field="memory", value=memory
            )
        item = await self._engine.explicit.update(before.id, _statement(fields), self._memory._walls)
        return StoredMemory.of(self._engine.access_counts.counted(item))

    async def forget(self, id: str, *, erase: bool = True) -> ErasureReport:
        """Delete a memory and erase its text from every place; NotFoundError for an unknown id.

        `erase=False` keeps history and versions, so that `undo` can restore it.
        """
        return await self._memory.forget(id=(await self._item(id)).id, erase=erase)

    async def forget_by_scope(
        self,
        *,
        user_id: str | None = None,
        project_id: str | None = None,
        types: Sequence[str] | None = None,
        erase: bool = True,
    ) -> ErasureReport:
        """Erase all memories of a user, of one of their projects, of some types; ScopeError without a user.

        Without `types`, the source messages of the user's memories are erased too; an empty list of them is refused.
        """
        kinds = _types(types)
        if types is not None and not kinds:  # a list that came out empty must not erase what it was to spare
            raise InvalidInputError(
                "types is empty, which names nothing: leave it out to forget all types", field="types", value=types
            )
        request = ForgetRequest(
            scope=self._scope(user_id, project_id),
            types=kinds,
            erase=requests.read_flag(erase, "erase"),
            walls=self._memory._walls,
        )
        return await self._engine.forget(request)

    async def consolidate(self, memory_ids: Sequence[str]) -> StoredMemory:
        """Merge at least two memories into one, which replaces them; `undo` of its addition brings them back.

        They must have the same user, project and type, else InvalidInputError; NotFoundError for an unknown id. Where
        values of one attribute differ, the newest stays: "Hawaii budget is $12,000 (updated from initial $10,000)".
        With the `llm` curator the model writes the text; if it fails, or invents a number, the rules do.
        """
        self._check_open()
        given = requests.read_texts(memory_ids, "memory_ids")
        ids = [(await self._item(id)).id for id in given]
        done = await self._engine.consolidate(ids, self._memory._walls)
        return StoredMemory.of(done.memory)

    async def reflect(
        self,
        scope: Scope | Mapping[str, str] | None = None,
        *,
        user_id: str | None = None,
        project_id: str | None = None,
        about: str | None = None,
    ) -> builtins.list[Insight]:
        """Derive insights from a user's memories: counts, common issues, preferred approaches, styles and lessons.

        An example is "User frequently deploys payment-service (12 times)". Pass a scope with `user_id` and
        `project_id`, or these as arguments. Each insight names its source memories, and is stored as a memory of type
        `reflective` that is forgotten with them. Running it again updates stored insights, and removes those that no
        longer hold. `about` limits the result to insights with one of its words, in themselves or in their memories.
        With the `llm` curator the model finds them; if it fails, or invents a number, the rules do.
        """
        given = _scope_of(scope)
        wanted = None if about is None else requests.read_text(about, "about")
        walls = self._scope(user_id or given.user_id, project_id or given.project_id)
        return (await self._engine.reflect(walls, about=wanted)).insights

    async def retrieve(
        self,
        query: str,
        *,
        user_id: str | None = None,
        project_id: str | None = None,
        types: Sequence[str] | None = None,
        limit: int = RETRIEVE_LIMIT,
        threshold: float = RETRIEVE_THRESHOLD,
    ) -> builtins.list[RetrieveResult]:
        """Return a user's memories that answer a query and score at least `threshold`, best first.

        With a `project_id` only that project's. Each result is counted as an access.
        """
        scope = self._scope(user_id, project_id)
        view = self._memory.within(user_id=scope.user_id, project_id=scope.project_id)
        found = await view.search(
            query, limit=limit, threshold=threshold, types=_types(types) or None, filters=_FACTS, preset="plain"
        )
        return [
            RetrieveResult(StoredMemory.of(self._engine.access_counts.counted(item)), item.score or 0.0)
            for item in found.results
        ]

    async def get(self, id: str) -> StoredMemory:
        """Return the memory with this id; NotFoundError if there is none."""
        return StoredMemory.of(await self._item(id))

    async def list(
        self,
        *,
        user_id: str | None = None,
        project_id: str | None = None,
        types: Sequence[str] | None = None,
        limit: int = LIST_LIMIT,
    ) -> MemoryListing:
        """Return a user's memories, newest first, at most 100 of them, and their total number."""
        most = min(requests.read_limit(limit), MOST_LISTED)
        scope = self._scope(user_id, project_id)
        view = self._memory.within(user_id=scope.user_id, project_id=scope.project_id)
        wanted = _types(types)
        filters = {"type": {"in": [*wanted]}} if wanted else None
        newest: deque[MemoryItem] = deque(maxlen=most)
        total, cursor = 0, None
        while True:
            page = await view.get_all(limit=_WALKED, filters=filters, cursor=cursor)
            newest.extend(page.results)
            total += len(page.results)
            cursor = page.next_cursor
            if cursor is None:
                return MemoryListing([StoredMemory.of(item) for item in reversed(newest)], total, most)

    async def is_enabled(self) -> bool:
        """Whether the store is usable: not after `close`, nor if it cannot be opened."""
        if self._is_closed:
            return False
        try:
            await self._engine.kernel.ready()
        except PerdureError:
            return False
        return True

    async def close(self) -> None:
        """Accept no more calls, and close the memory that `local` opened; closing twice is no error."""
        self._is_closed = True
        if self._is_own:
            await self._memory.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("this store was closed: make a new one")

    def _scope(self, user_id: str | None, project_id: str | None) -> Scope:
        self._check_open()
        scope = scoped(self._memory._walls, Scope(user_id=user_id, project_id=project_id))
        if scope.user_id is None:
            raise ScopeError("user_id must be given: every memory of this store belongs to a user", field="user_id")
        return scope

    async def _item(self, id: str) -> MemoryItem:
        """Return the user's memory with this id; one without a user, a team's for example, does not count."""
        self._check_open()
        item = await self._memory.get(id)
        if item is None or item.scope.user_id is None:
            raise NotFoundError(f"there is no memory with the id {shown(id)}")
        return item


def _read(memory: Given | None, **beside: object) -> dict[str, Any]:
    """Return the fields of a given memory that have a value; values given twice must agree."""
    if isinstance(memory, StoredMemory):
        fields: dict[str, Any] = {name: getattr(memory, name) for name in _FIELDS}
    elif isinstance(memory, Mapping):
        fields = dict(memory)
    elif memory is None or isinstance(memory, str):
        fields = {"content": memory}
    else:
        raise InvalidInputError(f"memory must be text or an object, not {shown(memory)}", field="memory", value=memory)
    for name in fields:
        if name not in _FIELDS:
            raise InvalidInputError(
                f"a memory has no field {shown(name)}: it has {', '.join(_FIELDS)}", field=str(name), value=fields[name]
            )
    fields = {name: value for name, value in fields.items() if value is not None}
    for name, value in beside.items():
        if value is not None and fields.setdefault(name, value) != value:
            raise InvalidInputError(
                f"{name} is given twice: {shown(fields[name])} and {shown(value)}", field=name, value=value
            )
    return fields


def _scope_of(scope: object) -> Scope:
    """Read a user and a project from one scope value."""
    if scope is None or isinstance(scope, Scope):
        found = scope or Scope()
    elif isinstance(scope, Mapping):
        for name in scope:
            if name not in ("user_id", "project_id"):
                raise InvalidInputError(
                    f"a scope of this store has user_id and project_id, not {shown(name)}", field="scope", value=scope
                )
        found = Scope(**scope)
    else:
        raise InvalidInputError(f"scope must be a Scope or an object, not {shown(scope)}", field="scope", value=scope)
    if {*found.given()} - {"user_id", "project_id"}:
        raise InvalidInputError("a scope of this store has user_id and project_id alone", field="scope", value=scope)
    return found


def _statement(fields: Mapping[str, Any]) -> Statement:
    content, kind, source, importance = (fields.get(name) for name in ("content", "type", "source", "importance"))
    return Statement(
        content=None if content is None else requests.read_text(content, "content"),
        type=None if kind is None else read_type(kind),
        source=None if source is None else requests.read_text(source, "source"),
        importance=None if importance is None else requests.read_share(importance, "importance"),
    )


def _types(types: Sequence[str] | None) -> tuple[str, ...]:
    if types is None:
        return ()
    return tuple(read_type(each, f"types[{place}]") for place, each in enumerate(requests.read_texts(types, "types")))


def _new_id(value: object) -> str:
    id = read_id(value)
    if id is None:
        raise InvalidInputError(f"id must be a UUID, with or without mem_, not {shown(value)}", field="id", value=value)
    return id


class MemoryStore(Closing[AsyncMemoryStore]):
    """AsyncMemoryStore over a Memory, without `await`: usable from any thread, and inside a running event loop."""

    def __init__(self, memory: Memory) -> None:
        if not isinstance(memory, Memory):
            raise ConfigError(f"a MemoryStore stands on a Memory, not on {shown(memory)}", field="memory")
        self._asynchronous = AsyncMemoryStore(memory._memory)

    @classmethod
    def local(cls, path: str | os.PathLike[str] = "~/.memory") -> Self:
        """Open a store with the embedded providers in one folder: no key, no server, no download."""
        return cls._over(AsyncMemoryStore.local(path))

    store = blocking(AsyncMemoryStore.store)
    update = blocking(AsyncMemoryStore.update)
    forget = blocking(AsyncMemoryStore.forget)
    forget_by_scope = blocking(AsyncMemoryStore.forget_by_scope)
    consolidate = blocking(AsyncMemoryStore.consolidate)
    reflect = blocking(AsyncMemoryStore.reflect)
    retrieve = blocking(AsyncMemoryStore.retrieve)
    get = blocking(AsyncMemoryStore.get)
    list = blocking(AsyncMemoryStore.list)
    is_enabled = blocking(AsyncMemoryStore.is_enabled)
