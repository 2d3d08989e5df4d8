"""The memory and document methods of the agent runtime; each takes names in either case (`base`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.domain import runtime
from perdure.domain.errors import EmbeddingError, InvalidInputError
from perdure.domain.memory import new_id
from perdure.domain.scope import Scope
from perdure.domain.stored_memory import MemoryType
from perdure.domain.text.readable import check_unicode, shown
from perdure.engine.agent_runtime.drafts import Draft, read_own_table, read_table, read_vector
from perdure.engine.agent_runtime.memories import Memories, MemoryQuery, MemoryReader, Revision, by_words, levenshtein
from perdure.engine.agent_runtime.tables import Tables
from perdure.engine.aio.calls import degrade
from perdure.engine.core.access import scoped
from perdure.engine.engine import Engine
from perdure.engine.requests import read_flag, read_limit, read_share, read_text
from perdure.frontends.library.runtime import shapes
from perdure.frontends.library.runtime.base import EitherCase, ids, objects
from perdure.pipeline.retrieval.fragment import SIZE, split_into_chunks

SEARCH_COUNT = 10  # default number of search results; lists are unlimited
ALL_TABLES = ("memories", "messages", "facts", "documents")  # the tables that `get_all_memories` reads
ALL_COUNT = 10_000  # maximum memories that it reads of each
CACHED_COUNT = 10  # default number of cached embeddings
_CHANGED = ("id", "content", "metadata", "embedding", "unique")  # fields of a memory that an update reads
_AXES = {"entity_id": "user_id", "agent_id": "agent_id", "room_id": "run_id", "world_id": "world_id"}
"""The fields that no update changes, and the scope fields that store them."""


class RuntimeMemories(EitherCase):
    """Memories in named tables; each method sees the agent's own unless `agent_id` names another."""

    _agent_id: str
    _engine: Engine
    _walls: Scope
    _memories: Memories
    _reading: MemoryReader
    _tables: Tables

    async def create_memory(self, memory: shapes.Given, table_name: str, unique: bool | None = None) -> str:
        """Store a memory in a table and return its id; it is embedded unless it brings its own vector.

        `unique=True`, here or in the memory, stores nothing if a similar one exists in the same room and of the same
        entity, and returns that one's id; None sets its flag by whether one exists. An existing id changes nothing. A
        memory without a room belongs to the agent's own room. If embedding fails, the memory is stored and queued.
        """
        draft = self._draft(shapes.read_memory(memory), read_own_table(table_name), unique)
        id = await self._memories.create(draft, self._scope(agent=draft.scope.agent_id))
        await self._ensure(draft.scope)
        return id

    async def update_memory(
        self,
        memory: shapes.Given | None = None,
        *,
        id: str | None = None,
        content: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        embedding: Sequence[float] | None = None,
        unique: bool | None = None,
    ) -> bool:
        """Replace a memory's content, metadata or both, each as a whole; False for an unknown id.

        A new text is embedded again, unless another vector comes with it. You may pass back a memory that was read: its
        empty fields change nothing, and `content={}` or `metadata={}` by name empties them. The old text stays as a
        version.
        """
        values = {"id": id, "content": content, "metadata": metadata, "embedding": embedding, "unique": unique}
        if memory is not None:
            values |= await self._revised(memory)
        if values["id"] is None:
            raise InvalidInputError("id is required", field="id")
        text, beside = None, None
        if values["content"] is not None:
            text, beside = shapes.text_of(shapes.read_content(values["content"]))
        vector = values["embedding"]
        revision = Revision(
            text=text,
            content=beside,
            metadata=None if values["metadata"] is None else self._metadata(shapes.read_metadata(values["metadata"])),
            vector=None if vector is None else read_vector(vector, self._dimension),
            unique=None if values["unique"] is None else read_flag(values["unique"], "unique"),
        )
        return await self._memories.update(runtime.read_uuid(values["id"]), revision, self._scope())

    async def delete_memory(self, memory_id: str) -> None:
        """Delete a memory, a document with its fragments; an unknown id is no error."""
        await self._memories.delete([runtime.read_uuid(memory_id, "memory_id")], self._scope())

    async def delete_many_memories(self, memory_ids: Sequence[str]) -> None:
        """Delete memories as `delete_memory` does, in batches of 100."""
        await self._memories.delete(_ids(memory_ids, "memory_ids"), self._scope())

    async def delete_all_memories(self, room_id: str, table_name: str) -> None:
        """Delete a room's memories in one table; other rooms and tables stay as they are."""
        asked = MemoryQuery(scope=self._scope(room=_wall(room_id, "roomId")), table=read_table(table_name))
        await self._memories.delete_all(asked, self._scope())

    async def clear_all_agent_memories(self) -> None:
        """Delete every memory of the agent, in all tables."""
        scope = self._scope()
        await self._memories.delete_all(MemoryQuery(scope=scope, table=None), scope)

    async def get_memories(
        self,
        *,
        table_name: str,
        entity_id: str | None = None,
        agent_id: str | None = None,
        room_id: str | None = None,
        world_id: str | None = None,
        count: int | None = None,
        offset: int | None = None,
        unique: bool | None = None,
        start: int | None = None,
        end: int | None = None,
        document_id: str | None = None,
    ) -> list[shapes.RuntimeMemory]:
        """Return the memories of a table, newest first, with their vectors.

        `count` limits them and `offset` skips the newest; `start` and `end` are milliseconds, both included;
        `unique=True` leaves out those whose flag is false; `document_id` keeps the fragments of that document.
        """
        skipped = runtime.read_offset(offset)
        asked = MemoryQuery(
            scope=self._scope(entity_id, agent_id, room_id, world_id),
            table=read_table(table_name),
            unique=_flag(unique),
            start=None if start is None else runtime.read_time(start, "start"),
            end=None if end is None else runtime.read_time(end, "end"),
            document_id=None if document_id is None else runtime.read_uuid(document_id, "document_id"),
        )
        most = None if count is None else read_limit(count, "count")
        found = await self._reading.newest(asked, count=most, offset=skipped, with_vectors=True)
        return [shapes.RuntimeMemory.of(each) for each in found]

    async def get_memory_by_id(self, id: str, agent_id: str | None = None) -> shapes.RuntimeMemory | None:
        """Return the memory with this id, or None."""
        found = await self._reading.by_ids([runtime.read_uuid(id)], self._scope(agent=agent_id))
        return shapes.RuntimeMemory.of(found[0]) if found else None

    async def get_memories_by_ids(
        self, ids: Sequence[str], table_name: str | None = None, agent_id: str | None = None
    ) -> list[shapes.RuntimeMemory]:
        """Return the memories of these ids, newest first, of one table if given; unknown ids are skipped."""
        table = None if table_name is None else read_table(table_name)
        found = await self._reading.by_ids(_ids(ids, "ids"), self._scope(agent=agent_id), table)
        return [shapes.RuntimeMemory.of(each) for each in found]

    async def get_memories_by_room_ids(
        self, *, table_name: str, room_ids: Sequence[str], limit: int | None = None, agent_id: str | None = None
    ) -> list[shapes.RuntimeMemory]:
        """Return the memories of a table in any of these rooms, newest first, without their vectors."""
        asked = MemoryQuery(
            scope=self._scope(agent=agent_id), table=read_table(table_name), rooms=tuple(ids(room_ids, "room_ids"))
        )
        if not asked.rooms:
            return []
        found = await self._reading.newest(asked, count=None if limit is None else read_limit(limit))
        return [shapes.RuntimeMemory.of(each) for each in found]

    async def get_memories_by_world_id(
        self, *, world_id: str, count: int | None = None, table_name: str = "messages", agent_id: str | None = None
    ) -> list[shapes.RuntimeMemory]:
        """Return the memories of a table in one world, newest first, without their vectors."""
        asked = MemoryQuery(
            scope=self._scope(agent=agent_id, world=_wall(world_id, "worldId")), table=read_table(table_name)
        )
        found = await self._reading.newest(asked, count=None if count is None else read_limit(count, "count"))
        return [shapes.RuntimeMemory.of(each) for each in found]

    async def get_all_memories(self) -> list[shapes.RuntimeMemory]:
        """Return the newest 10,000 of each of memories, messages, facts and documents, without their vectors."""
        found: list[shapes.RuntimeMemory] = []
        for table in ALL_TABLES:
            newest = await self._reading.newest(MemoryQuery(scope=self._scope(), table=table), count=ALL_COUNT)
            found += [shapes.RuntimeMemory.of(each) for each in newest]
        return found

    async def count_memories(
        self, room_id: str, unique: bool = True, table_name: str | None = None, agent_id: str | None = None
    ) -> int:
        """Count a room's memories in a table; those whose flag is false only with `unique=False`."""
        scope = self._scope(agent=agent_id, room=_wall(room_id, "roomId"))
        return await self._reading.count(MemoryQuery(scope=scope, table=read_table(table_name), unique=_flag(unique)))

    async def search_memories(
        self,
        *,
        table_name: str,
        query: str | None = None,
        embedding: Sequence[float] | None = None,
        match_threshold: float | None = None,
        count: int | None = None,
        unique: bool | None = None,
        room_id: str | None = None,
        world_id: str | None = None,
        entity_id: str | None = None,
        agent_id: str | None = None,
    ) -> list[shapes.RuntimeMemory]:
        """Return the memories of a table most similar to a query, or to its vector; 10 by default.

        Each has its `similarity`, a score in [0, 1], of at least `match_threshold`. With a vector no model is called; a
        query's words only help to order the results, best first.
        """
        if query is None and embedding is None:
            raise InvalidInputError("query or embedding is required", field="query")
        found = await self._reading.search(
            MemoryQuery(
                scope=self._scope(entity_id, agent_id, room_id, world_id),
                table=read_table(table_name),
                unique=_flag(unique),
            ),
            query=None if query is None else read_text(query, "query"),
            vector=None if embedding is None else read_vector(embedding, self._dimension),
            floor=None if match_threshold is None else read_share(match_threshold, "match_threshold"),
            count=SEARCH_COUNT if count is None else read_limit(count, "count"),
        )
        return [shapes.RuntimeMemory.of(each) for each in found]

    async def rerank_memories(self, query: str, memories: Sequence[shapes.Given]) -> list[shapes.RuntimeMemory]:
        """Return all of the memories, those that share words with the query first."""
        read = [shapes.read_memory(each) for each in objects(memories, "memories")]
        texts = [each.text for each in read]
        order = by_words(read_text(query, "query"), texts, [each.similarity or 0.0 for each in read])
        return [read[place] for place in order]

    async def use_model(self, model_type: str, params: Mapping[str, Any] | str) -> list[float]:
        """Embed a text: `use_model("TEXT_EMBEDDING", {"text": ...})`. EmbeddingError if there is no embedder."""
        if model_type != shapes.ModelType.TEXT_EMBEDDING:
            raise InvalidInputError(
                f"modelType must be {shapes.ModelType.TEXT_EMBEDDING}, not {shown(model_type)}",
                field="modelType",
                value=model_type,
            )
        text = params if isinstance(params, str) else params.get("text") if isinstance(params, Mapping) else None
        return await self._embedded(read_text(text, "text"))

    async def add_embedding_to_memory(self, memory: shapes.Given) -> shapes.RuntimeMemory:
        """Return a copy of the memory with its text's vector, and with an id if it had none; nothing is stored.

        An existing vector is kept. EmbeddingError if the model fails.
        """
        read = shapes.read_memory(memory)
        read.id = new_id() if read.id is None else runtime.read_uuid(read.id)
        if read.embedding is None:
            if not read.text.strip():
                raise InvalidInputError(
                    "Cannot generate embedding: Memory content is empty", field="content.text", value=read.text
                )
            read.embedding = await self._embedded(read.text)
        return read

    async def ensure_embedding_dimension(self, dimension: int | None = None) -> int:
        """Return the length of every vector; InvalidInputError if another one is requested."""
        if dimension is not None and dimension != self._dimension:
            raise InvalidInputError(
                f"dimension is {self._dimension}, the embedder's, not {shown(dimension)}: configure another embedder",
                field="dimension",
                value=dimension,
            )
        return self._dimension

    @property
    def _dimension(self) -> int:
        return self._engine.kernel.embedding.embedder.dimension

    async def _embedded(self, text: str) -> list[float]:
        embedding = self._engine.kernel.embedding
        vector = await embedding.query(text)
        if vector is None:
            raise EmbeddingError(f"there is no embedder: {embedding.embedder.unavailable()}")
        return [float(number) for number in vector]

    def _scope(
        self, entity: str | None = None, agent: str | None = None, room: str | None = None, world: str | None = None
    ) -> Scope:
        agent = self._agent_id if agent is None else agent
        ids = {"entity_id": entity, "agent_id": agent, "room_id": room, "world_id": world}
        given = {_AXES[name]: runtime.read_key(value, name) for name, value in ids.items() if value is not None}
        return scoped(self._walls, Scope(**given))

    def _room(self, agent: str) -> str:
        """Return the room of a memory that names none: the agent's own, or that of the scope."""
        return agent if self._walls.run_id is None else self._walls.run_id

    def _draft(self, memory: shapes.RuntimeMemory, table: str, unique: bool | None) -> Draft:
        text, beside = shapes.text_of(memory.content)
        agent = self._agent_id if memory.agent_id is None else memory.agent_id
        room = self._room(agent) if memory.room_id is None else memory.room_id
        created_at = None if memory.created_at is None else runtime.read_time(memory.created_at, "created_at")
        return Draft(
            table=table,
            scope=self._scope(memory.entity_id, agent, room, memory.world_id),
            text=text,
            content=beside,
            metadata=self._metadata(memory.metadata, created_at),
            id=None if memory.id is None else runtime.read_uuid(memory.id),
            created_at=None if created_at is None else runtime.moment_of(created_at),
            vector=None if memory.embedding is None else read_vector(memory.embedding, self._dimension),
            unique=memory.unique if unique is None else read_flag(unique, "unique"),
        )

    def _metadata(self, metadata: dict[str, Any], created_at: int | None = None) -> dict[str, Any]:
        """Add a document's creation time to its metadata if it is missing."""
        if metadata.get("type") != "document" or metadata.get("timestamp") is not None:
            return metadata
        now = runtime.milliseconds(self._engine.kernel.clock.now())
        return {**metadata, "timestamp": now if created_at is None else created_at}

    async def _revised(self, memory: shapes.Given) -> dict[str, Any]:
        """Return the changes in a caller's memory; InvalidInputError if it was moved, which no update does."""
        given = shapes.read_memory(memory)
        named = {runtime.snake(name) for name in memory} if isinstance(memory, Mapping) else set()
        values = {name: getattr(given, name) for name in _CHANGED}
        values = {name: value for name, value in values.items() if value or value is False or name in named}
        values = {name: value for name, value in values.items() if value is not None}
        if given.id is None:
            return values
        found = await self._reading.by_ids([runtime.read_uuid(given.id)], self._scope())
        if not found:
            return values
        stored = shapes.RuntimeMemory.of(found[0])
        for name in (*_AXES, "created_at"):
            value = getattr(given, name)
            read = runtime.read_time if name == "created_at" else runtime.read_key
            if value is not None and read(value, name) != getattr(stored, name):
                raise InvalidInputError(
                    f"{runtime.camel(name)} of a memory cannot be changed: create it anew", field=name, value=value
                )
        if isinstance(memory, shapes.RuntimeMemory) and given.embedding == stored.embedding:
            values.pop("embedding", None)  # it belongs to the text that was read
        return values

    async def _ensure(self, scope: Scope) -> None:
        """Make sure that the tables contain everything a memory names."""
        with degrade("the tables do not know what a memory names"):
            await self._tables.ensure(
                str(scope.agent_id),
                entities=filter(None, [scope.user_id]),
                rooms=filter(None, [scope.run_id]),
                worlds=filter(None, [scope.world_id]),
            )


def _ids(given: object, name: str) -> list[str]:
    if isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
        raise InvalidInputError(f"{name} must be a list of ids, not {shown(given)}", field=name, value=given)
    return [runtime.read_uuid(each, f"{name}[{place}]") for place, each in enumerate(given)]


def _wall(value: Any, name: str) -> Any:
    if value is None or value == "":
        raise InvalidInputError(f"{name} is required", field=name, value=value)
    return value


def _flag(unique: object) -> bool:
    return unique is not None and read_flag(unique, "unique")


class RuntimeDocuments(RuntimeMemories):
    """Documents, and cached embeddings."""

    async def process_document(
        self,
        text: str,
        title: str,
        *,
        entity_id: str | None = None,
        room_id: str | None = None,
        world_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        chunk_size: int = SIZE,
    ) -> str:
        """Store a document in `documents` and its pieces in `fragments`, all or none; return its id.

        The document's text is its title, and `content.fullText` the whole. A fragment has `documentId` and `position`
        in its metadata, from 0 on, and at most `chunk_size` characters; joined they are the text. `metadata` is the
        document's.
        """
        whole, size = read_text(text, "text"), read_limit(chunk_size, "chunk_size")
        given = {} if metadata is None else runtime.read_object(metadata, "metadata")
        about = shapes.read_metadata({**given, "type": MemoryType.DOCUMENT})
        room = self._room(self._agent_id) if room_id is None else room_id
        scope, document = self._scope(entity_id, None, room, world_id), new_id()
        drafts = [
            Draft(
                table="documents",
                scope=scope,
                id=document,
                text=read_text(title, "title"),
                content={"fullText": whole},
                metadata=self._metadata(about),
            )
        ]
        for position, piece in enumerate(split_into_chunks(whole, size)):
            place = {"type": MemoryType.FRAGMENT.value, "documentId": document, "position": position}
            drafts.append(Draft(table="fragments", scope=scope, text=piece, metadata=place))
        await self._memories.create_all(drafts)
        await self._ensure(scope)
        return document

    async def get_cached_embeddings(
        self,
        *,
        query_table_name: str,
        query_input: str,
        query_threshold: int,
        query_field_name: str = "content",
        query_field_sub_name: str = "text",
        query_match_count: int = CACHED_COUNT,
    ) -> list[dict[str, Any]]:
        """Return vectors of memories whose text is at most `query_threshold` edits from the input, nearest first.

        Each is `{"embedding": [...], "levenshteinScore": edits}`. The text is that of a field of the memory's content,
        or of its metadata.
        """
        if not isinstance(query_input, str):
            raise InvalidInputError(
                f"queryInput must be text, not {shown(query_input)}", field="queryInput", value=query_input
            )
        if isinstance(query_threshold, bool) or not isinstance(query_threshold, int) or query_threshold < 0:
            raise InvalidInputError(
                f"queryThreshold must be a whole number from 0, not {shown(query_threshold)}",
                field="queryThreshold",
                value=query_threshold,
            )
        most = read_limit(query_match_count, "query_match_count")
        field, part = (
            read_text(query_field_name, "query_field_name"),
            read_text(query_field_sub_name, "query_field_sub_name"),
        )
        asked = MemoryQuery(scope=self._scope(), table=read_table(query_table_name))
        sought, near = check_unicode(query_input, "queryInput"), list[tuple[int, list[float]]]()
        for found in await self._reading.newest(asked, count=None, with_vectors=True):
            memory = shapes.RuntimeMemory.of(found)
            held = memory.get(field, {})
            text = held.get(part) if isinstance(held, Mapping) else None
            edits = levenshtein(sought, text, query_threshold) if isinstance(text, str) else None
            if edits is not None and memory.embedding is not None:
                near.append((edits, memory.embedding))
        near.sort(key=lambda each: each[0])
        return [{"embedding": embedding, "levenshteinScore": edits} for edits, embedding in near[:most]]
