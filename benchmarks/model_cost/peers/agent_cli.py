"""agent-cli's memory: what its proxy runs after each turn, with its own Chroma collection and Markdown files.

`MemoryClient` would download a re-ranker, which adding does not use; so its `add` is done here by the same function.
Only the user's message is read: agent-cli leaves the assistant's out of its prompt.
"""

from __future__ import annotations

from pathlib import Path

from agent_cli.memory._files import ensure_store_dirs
from agent_cli.memory._ingest import extract_and_store_facts_and_summaries
from agent_cli.memory._store import init_memory_collection, list_conversation_entries


class Peer:
    """See drive.py."""

    def __init__(self, address: str, folder: Path) -> None:
        self._address = address
        self._folder = folder
        ensure_store_dirs(folder)
        self._collection = init_memory_collection(
            folder, embedding_model="text-embedding-3-small", openai_base_url=address, openai_api_key="scripted"
        )

    async def add(self, messages: list[dict[str, str]], who: str) -> None:
        spoken = {message["role"]: message["content"] for message in messages}
        await extract_and_store_facts_and_summaries(
            collection=self._collection,
            memory_root=self._folder,
            conversation_id=who,
            user_message=spoken["user"],
            assistant_message=spoken.get("assistant"),
            openai_base_url=self._address,
            api_key="scripted",
            model="gpt-4o-mini",
        )

    async def stored(self, who: str) -> list[str]:
        return [entry.content for entry in list_conversation_entries(self._collection, who)]

    async def close(self) -> None:
        """Nothing is open."""
