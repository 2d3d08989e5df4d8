"""Documents of the agent runtime: a long text, kept whole, and the fragments that a search finds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.domain.errors import InvalidInputError
from perdure.domain.memory import new_id
from perdure.domain.records import read_object
from perdure.domain.stored_memory import MemoryType
from perdure.domain.text.readable import check_unicode, shown
from perdure.engine.agent_runtime.distance import levenshtein
from perdure.engine.agent_runtime.drafts import Draft, read_table
from perdure.engine.agent_runtime.memories import MemoryQuery
from perdure.engine.arguments import read_limit, read_text
from perdure.frontends.library.runtime.memories import RuntimeMemories
from perdure.frontends.library.runtime.shapes import RuntimeMemory, read_metadata
from perdure.pipeline.retrieval.fragment import SIZE, split_into_chunks

__all__ = ["RuntimeDocuments", "split_into_chunks"]

CACHED_COUNT = 10
"""Cached embeddings that are given unless told otherwise."""


class RuntimeDocuments(RuntimeMemories):
    """Documents, and what was embedded before."""

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
        """Keep a document in `documents` and its pieces in `fragments`, all or none; the document's id.

        The document's text is its title, and `content.fullText` the whole. A fragment has `documentId` and `position`
        in its metadata, from 0 on, and at most `chunk_size` characters; joined they are the text. `metadata` is the
        document's.
        """
        whole, size = read_text(text, "text"), read_limit(chunk_size, "chunk_size")
        given = {} if metadata is None else read_object(metadata, "metadata")
        about = read_metadata({**given, "type": MemoryType.DOCUMENT})
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
        """Vectors of memories whose text is at most `query_threshold` edits from the input, nearest first.

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
            memory = RuntimeMemory.of(found)
            held = memory.get(field, {})
            text = held.get(part) if isinstance(held, Mapping) else None
            edits = levenshtein(sought, text, query_threshold) if isinstance(text, str) else None
            if edits is not None and memory.embedding is not None:
                near.append((edits, memory.embedding))
        near.sort(key=lambda each: each[0])
        return [{"embedding": embedding, "levenshteinScore": edits} for edits, embedding in near[:most]]
