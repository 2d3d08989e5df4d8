"""mem0, as its quick start configures it: OpenAI for model and embeddings, embedded Qdrant."""

from __future__ import annotations

from pathlib import Path

from mem0 import AsyncMemory


class Peer:
    """See drive.py."""

    def __init__(self, address: str, folder: Path) -> None:
        openai = {"api_key": "scripted", "openai_base_url": address}
        self._memory = AsyncMemory.from_config(
            {
                "llm": {"provider": "openai", "config": {**openai, "model": "gpt-4o-mini"}},
                "embedder": {"provider": "openai", "config": {**openai, "model": "text-embedding-3-small"}},
                "vector_store": {"provider": "qdrant", "config": {"path": str(folder / "qdrant")}},
                "history_db_path": str(folder / "history.db"),
            }
        )

    async def add(self, messages: list[dict[str, str]], who: str) -> None:
        await self._memory.add(messages, user_id=who)

    async def stored(self, who: str) -> list[str]:
        found = await self._memory.get_all(filters={"user_id": who}, top_k=1000)
        return [each["memory"] for each in found["results"]]

    async def close(self) -> None:
        """Nothing that the end of the process does not do."""
