"""graphiti over an embedded Kuzu graph, with its own OpenAI client; an episode for each conversation."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from graphiti_core import Graphiti
from graphiti_core.cross_encoder.openai_reranker_client import OpenAIRerankerClient
from graphiti_core.driver.kuzu_driver import KuzuDriver
from graphiti_core.edges import EntityEdge
from graphiti_core.embedder.openai import OpenAIEmbedder, OpenAIEmbedderConfig
from graphiti_core.errors import GroupsEdgesNotFoundError
from graphiti_core.graph_queries import get_fulltext_indices
from graphiti_core.llm_client.config import LLMConfig
from graphiti_core.llm_client.openai_client import OpenAIClient
from graphiti_core.nodes import EpisodeType


class Peer:
    """See drive.py."""

    def __init__(self, address: str, folder: Path) -> None:
        llm = LLMConfig(api_key="scripted", base_url=address, model="gpt-4o-mini", small_model="gpt-4o-mini")
        embedder = OpenAIEmbedderConfig(
            api_key="scripted", base_url=address, embedding_model="text-embedding-3-small", embedding_dim=1536
        )
        self._driver = KuzuDriver(str(folder / "graph.kuzu"))
        self._driver._database = ""  # declared and read by graphiti, but never set: add_episode fails without it
        self._graph = Graphiti(
            graph_driver=self._driver,
            llm_client=OpenAIClient(config=llm),
            embedder=OpenAIEmbedder(config=embedder),
            cross_encoder=OpenAIRerankerClient(config=llm),
        )
        self._ready = False

    async def add(self, messages: list[dict[str, str]], who: str) -> None:
        if not self._ready:
            for query in get_fulltext_indices(self._driver.provider):  # which Kuzu's driver leaves out, and searches by
                await self._driver.execute_query(query)
            self._ready = True
        await self._graph.add_episode(
            name="conversation",
            episode_body="\n".join(f"{message['role']}: {message['content']}" for message in messages),
            source_description="conversation",
            reference_time=datetime.now(UTC),
            source=EpisodeType.message,
            group_id=who,
        )

    async def stored(self, who: str) -> list[str]:
        try:
            return [edge.fact for edge in await EntityEdge.get_by_group_ids(self._driver, [who])]
        except GroupsEdgesNotFoundError:
            return []

    async def close(self) -> None:
        await self._graph.close()
