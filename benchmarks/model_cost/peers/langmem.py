"""langmem's store manager, as its documentation shows it, over LangGraph's in-memory store."""

from __future__ import annotations

from pathlib import Path

from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from langgraph.store.memory import InMemoryStore
from langmem import create_memory_store_manager


class Peer:
    """See drive.py."""

    def __init__(self, address: str, folder: Path) -> None:
        # Without `check_embedding_ctx_length=False` the client downloads a vocabulary and sends token numbers.
        embeddings = OpenAIEmbeddings(
            model="text-embedding-3-small", base_url=address, api_key="scripted", check_embedding_ctx_length=False
        )
        self._store = InMemoryStore(index={"dims": 1536, "embed": embeddings})
        model = ChatOpenAI(model="gpt-4o-mini", base_url=address, api_key="scripted")
        self._manager = create_memory_store_manager(
            model, namespace=("memories", "{langgraph_user_id}"), store=self._store
        )

    async def add(self, messages: list[dict[str, str]], who: str) -> None:
        await self._manager.ainvoke({"messages": messages}, config={"configurable": {"langgraph_user_id": who}})

    async def stored(self, who: str) -> list[str]:
        found = await self._store.asearch(("memories", who), limit=1000)
        return [each.value["content"]["content"] for each in found]

    async def close(self) -> None:
        """Nothing is open."""
