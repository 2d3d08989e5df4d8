"""perdure, through its public API, with OpenAI's own client: sqlite in the folder, minilm embeddings (no service)."""

from __future__ import annotations

from pathlib import Path

from perdure import AsyncMemory


class Peer:
    """See drive.py."""

    def __init__(self, address: str, folder: Path) -> None:
        llm = {"model": "gpt-4o-mini", "base_url": address, "api_key": "scripted"}
        self._memory = AsyncMemory({"path": str(folder), "llm": {"provider": "openai", "config": llm}})

    async def add(self, messages: list[dict[str, str]], who: str) -> None:
        result = await self._memory.add(messages, user_id=who)
        if result.warnings:
            raise RuntimeError(f"perdure gave up something: {result.warnings}")

    async def stored(self, who: str) -> list[str]:
        return [item.memory for item in (await self._memory.get_all(user_id=who)).results]

    async def close(self) -> None:
        await self._memory.close()
