"""Routes of explicit memories (/v1/memory): store, list, change and delete a user's memories one by one.

A request that names a team (X-Team-Scope) goes to the `teams` routes with the same path, or is rejected if there is
none. `upsert` and `search` below /v1/memory are routes of `teams`, not ids.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from perdure.domain.access import Caller
from perdure.domain.errors import AuthenticationError, InvalidInputError, NotFoundError, ScopeError
from perdure.domain.scope import MAX_SCOPE_LENGTH
from perdure.domain.stored_memory import StoredMemory, StoredType, read_type, shown_id
from perdure.domain.text.readable import shown
from perdure.frontends.gateway.request_context import USER_HEADER
from perdure.frontends.library.memory import AsyncMemory
from perdure.frontends.library.memory_store import LIST_LIMIT, AsyncMemoryStore
from perdure.frontends.server.dependencies import CurrentCaller, memory_of_caller, need_writer, user_of
from perdure.frontends.server.state import CurrentService, Service

router = APIRouter(prefix="/v1/memory", tags=["explicit memory"])
_ID = re.compile(r"[a-zA-Z0-9._@:/$-]+")  # characters of a memory id
_USER = re.compile(r"[\w.@:/$|+-]+")
"""Characters of a user id: letters of every script, and those of e-mail addresses and Auth0's ids."""
_HEX = "[0-9a-fA-F]"
Source = Annotated[str, Field(min_length=1, examples=["conversation"])]
Project = Annotated[str, Field(min_length=1, max_length=MAX_SCOPE_LENGTH, examples=["project_abc"])]
User = Annotated[str, Field(pattern=f"^{_USER.pattern}$", max_length=MAX_SCOPE_LENGTH, examples=["user_123"])]
OwnId = Annotated[str, Field(pattern=f"^(mem_)?{_HEX}{{8}}(-?{_HEX}{{4}}){{3}}-?{_HEX}{{12}}$")]


class MemoryOut(BaseModel):
    """A memory; `updated_at` is present once it was changed."""

    id: str = Field(examples=["mem_7f9c24e8a1d24f0c9a3be1d05c7e8a11"])
    type: str = Field(examples=["semantic"])
    content: str = Field(examples=["User's budget for Hawaii is $10,000"])
    user_id: str = Field(examples=["user_123"])
    project_id: str | None = Field(None, examples=["project_abc"])
    source: str | None = Field(None, examples=["conversation"])
    created_at: str = Field(examples=["2026-03-15T09:30:00.000000+00:00"])
    updated_at: str | None = Field(None, examples=["2026-03-20T10:00:00.000000+00:00"])
    access_count: int = Field(examples=[0])
    importance: float = Field(examples=[0.5])


class MemoriesOut(BaseModel):
    """A user's newest memories, and their total number."""

    memories: list[MemoryOut]
    total: int = Field(examples=[1])
    limit: int = Field(examples=[20])


class HistoryRow(BaseModel):
    """One event of a memory; an erased event has no texts."""

    id: str = Field(description="The id to pass to `undo`", examples=["0b7f4c0e-5a53-4c6e-8a53-5f5e5c6d7e8f"])
    memory_id: str = Field(examples=["mem_7f9c24e8a1d24f0c9a3be1d05c7e8a11"])
    event: Literal["ADD", "UPDATE", "DELETE"]
    old_value: str | None = Field(examples=["User's budget for Hawaii is $10,000"])
    new_value: str | None = Field(examples=["User's budget for Hawaii is $15,000"])
    timestamp: str = Field(examples=["2026-03-20T10:00:00.000000+00:00"])
    actor: str = Field(examples=["update"])
    undoes: str | None = Field(examples=[None])
    erased: bool = Field(examples=[False])


class HistoryOut(BaseModel):
    """The events of a memory, oldest first."""

    history: list[HistoryRow]


class DeletionOut(BaseModel):
    """The result of a deletion."""

    success: bool = Field(examples=[True])
    message: str = Field(examples=["Memory deleted successfully"])


class _Fields(BaseModel):
    model_config = ConfigDict(extra="forbid")

    type: StoredType | None = Field(None, description="Default semantic", examples=["semantic"])
    project_id: Project | None = Field(None, description="The user's project")
    source: Source | None = Field(None, description="Its origin; default `api`")
    importance: float | None = Field(None, ge=0, le=1, description="Default 0.5", examples=[0.5])
    user_id: User | None = Field(None, description="The user, if no proxy names one")
    id: OwnId | None = Field(None, description="Your own id: a UUID, with or without `mem_`")


class NewMemory(_Fields):
    """A memory to store as it is."""

    content: str = Field(min_length=1, examples=["User's budget for Hawaii is $10,000"])


class ChangedMemory(_Fields):
    """The fields to change; a whole memory may be sent, and the fields that the store sets are ignored."""

    content: str | None = Field(None, min_length=1, examples=["User's budget for Hawaii is $15,000"])
    created_at: str | None = Field(None, description="Ignored")
    updated_at: str | None = Field(None, description="Ignored")
    access_count: int | None = Field(None, description="Ignored")


class _Whose(BaseModel):
    model_config = ConfigDict(extra="forbid")

    user_id: User | None = Field(None, description=f"The user, where {USER_HEADER} names none")


class OwnerQuery(_Whose):
    """The owner of a memory."""


class ForgetOneQuery(_Whose):
    """The owner of a memory, and whether its text is erased from history too."""

    erase: bool | None = Field(None, description="Default true; false keeps history, so that it can be undone")


class SelectionQuery(_Whose):
    """A selection of a user's memories."""

    project_id: Project | None = Field(None, description="Only of this project")
    type: str | None = Field(None, description="Only these types, comma-separated", examples=["semantic,procedural"])

    def types(self) -> list[str] | None:
        """The requested types."""
        return None if self.type is None else [read_type(each.strip()) for each in self.type.split(",")]


class ListMemoriesQuery(SelectionQuery):
    """A selection of a user's memories, and its maximum size."""

    limit: int = Field(LIST_LIMIT, ge=1, description="At most 100; a greater value is reduced to that", examples=[20])


class ForgetManyQuery(SelectionQuery):
    """A selection of a user's memories, and whether their text is erased from history too."""

    erase: bool = Field(True, description="False keeps history, so that it can be undone")


MemoryId = Annotated[str, Path(description="With or without `mem_`", examples=["mem_7f9c24e8a1d24f0c9a3be1d05c7e8a11"])]


class UserStores:
    """Access to the memories of the users that a request may name."""

    def __init__(self, request: Request, service: Service, caller: Caller) -> None:
        self._request = request
        self._service = service
        self._caller = caller

    def of_user(self, given: str | None) -> AsyncMemoryStore:
        """Return the store of the user that the proxy, the request or the credentials name; ScopeError if none does."""
        memory, user = memory_of_caller(self._service, self._caller), self._user(given)
        if user is None:
            raise ScopeError(f"whose memories? send {USER_HEADER}, or name a user_id", field="user_id")
        return AsyncMemoryStore(memory.within(user_id=user))

    def of_anybody(self, given: str | None) -> AsyncMemoryStore:
        """Return the store for a request about one memory; a caller that may name any user need not name one."""
        return AsyncMemoryStore(self.memory(given))

    def memory(self, given: str | None) -> AsyncMemory:
        """Return the memory that `of_anybody` wraps."""
        memory, user = memory_of_caller(self._service, self._caller), self._user(given)
        if user is None:
            self._believed("anybody")
        return memory if user is None else memory.within(user_id=user)

    def to_write(self) -> UserStores:
        """Return itself; ForbiddenError for a caller that may only read."""
        need_writer(self._caller)
        return self

    def _user(self, given: str | None) -> str | None:
        if given is None and not self._request.headers.get(USER_HEADER):
            return self._caller.walls.user_id
        user = self._believed(given)
        if user is not None and not _USER.fullmatch(user):
            raise InvalidInputError(
                f"user_id must be letters, digits and any of . _ @ : / $ | + -, not {shown(user)}",
                field="user_id",
                value=user,
            )
        return user

    def _believed(self, given: str | None) -> str | None:
        try:
            return user_of(self._request, self._service, self._caller, given)
        except AuthenticationError as error:
            raise ScopeError(error.message, field="user_id") from error


async def stores(request: Request, service: CurrentService, caller: CurrentCaller) -> UserStores:
    """Build the `UserStores` of a request."""
    return UserStores(request, service, caller)


CurrentUserStores = Annotated[UserStores, Depends(stores)]


@router.get("", summary="A user's memories, newest first", response_model_exclude_none=True)
async def list_memories(users: CurrentUserStores, query: Annotated[ListMemoriesQuery, Query()]) -> MemoriesOut:
    """List at most `limit` of the user's memories, newest first, and their total number."""
    found = await users.of_user(query.user_id).list(project_id=query.project_id, types=query.types(), limit=query.limit)
    return MemoriesOut(memories=[_out(memory) for memory in found.memories], total=found.total, limit=found.limit)


@router.post("", summary="Store a memory as it is", response_model_exclude_none=True)
async def store_memory(users: CurrentUserStores, body: NewMemory) -> MemoryOut:
    """Store a memory without extraction; searches find it, and later memories are reconciled with it."""
    fields = body.model_dump(exclude_none=True, exclude={"user_id"})
    return _out(await users.to_write().of_user(body.user_id).store(fields))


@router.delete("", summary="Forget a user's memories, or those of one of their projects")
async def forget_memories(users: CurrentUserStores, query: Annotated[ForgetManyQuery, Query()]) -> DeletionOut:
    """Delete and erase the user's memories: all, or those of one project or of some types."""
    types = query.types()
    await (
        users.to_write()
        .of_user(query.user_id)
        .forget_by_scope(project_id=query.project_id, types=types, erase=query.erase)
    )
    which = f" of type: {', '.join(types)}" if types else ""
    where = f" of project: {query.project_id}" if query.project_id else ""
    return DeletionOut(success=True, message=f"Successfully deleted all memories{which}{where}")


@router.get("/{memory_id}", summary="One memory", response_model_exclude_none=True)
async def get_memory(users: CurrentUserStores, memory_id: MemoryId, query: Annotated[OwnerQuery, Query()]) -> MemoryOut:
    """Return a memory; 404 also if it belongs to another user."""
    return _out(await users.of_anybody(query.user_id).get(_id(memory_id)))


@router.put("/{memory_id}", summary="Change a memory", response_model_exclude_none=True)
async def update_memory(
    users: CurrentUserStores, memory_id: MemoryId, query: Annotated[OwnerQuery, Query()], body: ChangedMemory
) -> MemoryOut:
    """Change the given fields; the id stays, and the old text is kept in the history."""
    fields = body.model_dump(exclude_none=True)
    return _out(await users.to_write().of_anybody(query.user_id).update(_id(memory_id), fields))


@router.delete("/{memory_id}", summary="Forget a memory")
async def forget_memory(
    users: CurrentUserStores, memory_id: MemoryId, query: Annotated[ForgetOneQuery, Query()]
) -> DeletionOut:
    """Delete a memory, and erase its text everywhere; `erase=false` keeps the history, so that it can be undone."""
    store = users.to_write().of_anybody(query.user_id)
    await store.forget(_id(memory_id), erase=query.erase is not False)
    return DeletionOut(success=True, message="Memory deleted successfully")


@router.get("/{memory_id}/history", summary="Get the history of a memory")
async def history_of_memory(
    users: CurrentUserStores, memory_id: MemoryId, query: Annotated[OwnerQuery, Query()]
) -> HistoryOut:
    """List the events of a memory, deleted ones too, oldest first; 404 if there never was such a memory."""
    records = await users.memory(query.user_id).history(_id(memory_id))
    if not any(record.user_id for record in records):
        raise NotFoundError(f"there is no memory with the id {shown(memory_id)}")
    rows = [HistoryRow(**record.model_dump() | {"memory_id": shown_id(record.memory_id)}) for record in records]
    return HistoryOut(history=rows)


def _id(value: str) -> str:
    if not _ID.fullmatch(value):
        raise InvalidInputError(f"id must be that of a memory, not {shown(value)}", field="id", value=value)
    return value


def _out(memory: StoredMemory) -> MemoryOut:
    dump: dict[str, Any] = memory.model_dump()
    if memory.updated_at != memory.created_at:
        dump["updated_at"] = memory.updated_at
    return MemoryOut(**dump)
