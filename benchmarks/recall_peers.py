"""Who stands beside perdure in the benchmarks of recall: three arms written here in a few lines, and peers' packages.

The arms are the usual ones: BM25 over stems, cosine, and both added after each was divided by its best. The peers are
asked as their own documentation shows, with nothing of theirs switched off. None can load an embedding model without a
network, so each is given perdure's minilm vectors through its own interface, and a text that two of them embed is
encoded once. They have no field for who speaks that they search, so everybody but perdure gets "speaker: text".

- `mem0`: mem0ai 2.x, embedded Qdrant, `add(..., infer=False)`, which stores each message as it is (its own extraction
  needs a language model); its embedder is replaced by one of its class `EmbeddingBase`.
- `langgraph`: `InMemoryStore` with an `index` whose `embed` is ours; a namespace for each conversation.
- `chroma`: a chromadb collection as one writes it by hand: cosine, and a filter on the conversation.
"""

from __future__ import annotations

import math
import os
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from perdure.domain.text.terms import stem
from perdure.pipeline.lexicon import words
from recall_data import Conversation, Turn, by_sessions  # beside this file

Vector = NDArray[np.float32]

K1, B = 1.2, 0.75
"""BM25's usual constants (Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009)."""
QUIET = {
    "MEM0_TELEMETRY": "False",
    "ANONYMIZED_TELEMETRY": "False",
    "LANGSMITH_TRACING": "false",
}
"""What the peers read before they would call home."""

_WORD = re.compile(r"[a-z0-9]+")


class NotInstalledError(Exception):
    """A peer's package is not here; the text names it."""


class Vectors:
    """Vectors of texts, of length 1, each text encoded once however often it is asked for."""

    def __init__(self, encode: Callable[[Sequence[str]], NDArray[np.float32]], dimension: int) -> None:
        self._encode = encode
        self.dimension = dimension
        self._known: dict[str, Vector] = {}

    def __call__(self, texts: Sequence[str]) -> Vector:
        """The vectors, of shape (len(texts), dimension)."""
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new:
            self._known.update(zip(new, self._encode(new), strict=True))
        return np.stack([self._known[text] for text in texts]) if texts else np.empty((0, self.dimension), np.float32)

    def lists(self, texts: Sequence[str]) -> list[list[float]]:
        """The vectors as plain lists, which is how the peers take them."""
        vectors: list[list[float]] = self(texts).tolist()
        return vectors


class Arm(ABC):
    """Something that is loaded with conversations and names the turns that answer a question, best first."""

    name: str
    note: str
    """How it was set up, for the table."""

    @abstractmethod
    def load(self, conversation: Conversation) -> None:
        """Put a conversation in."""

    @abstractmethod
    def ask(self, conversation: Conversation, question: str, limit: int) -> list[str]:
        """Ids of the conversation's turns, best first."""

    def close(self) -> None:
        """Let go of every resource."""


def said(turn: Turn) -> str:
    """A turn as those get it who have no field for who speaks."""
    return f"{turn.speaker}: {turn.text}" if turn.speaker else turn.text


# ---------------------------------------------------------------------- arms written here
class _Scoring(Arm):
    """An arm that gives every turn of a conversation a score."""

    @abstractmethod
    def scores(self, conversation: Conversation, question: str) -> NDArray[np.float64]:
        """A score for each turn; 0 where nothing speaks for it."""

    def ask(self, conversation: Conversation, question: str, limit: int) -> list[str]:
        scores = self.scores(conversation, question)
        best = np.argsort(-scores, kind="stable")[:limit]
        return [conversation.turns[place].id for place in best if scores[place] > 0]


class Lexical(_Scoring):
    """BM25 over Porter's stems without the commonest words; a turn is a document of its conversation."""

    name, note = "bm25", f"stems, stop words, k1 {K1}, b {B}"

    def __init__(self) -> None:
        self._counts: dict[str, list[Counter[str]]] = {}

    def load(self, conversation: Conversation) -> None:
        self._counts[conversation.id] = [Counter(_stems(said(turn))) for turn in conversation.turns]

    def scores(self, conversation: Conversation, question: str) -> NDArray[np.float64]:
        counts = self._counts[conversation.id]
        lengths = np.array([count.total() for count in counts], np.float64)
        norm = K1 * (1 - B + B * lengths / max(1.0, float(lengths.mean())))
        scores = np.zeros(len(counts))
        for word in set(_stems(question)):
            held = np.array([count[word] for count in counts], np.float64)
            having = np.count_nonzero(held)
            rarity = math.log1p((len(counts) - having + 0.5) / (having + 0.5))
            scores += rarity * held * (K1 + 1) / (held + norm)
        return scores


def _stems(text: str) -> list[str]:
    stop = words("recall_stopwords.txt")
    return [stem(word) for word in _WORD.findall(text.lower()) if word not in stop]


class Dense(_Scoring):
    """Cosine between the question and each turn."""

    name, note = "dense", "minilm, cosine"

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self._turns: dict[str, Vector] = {}

    def load(self, conversation: Conversation) -> None:
        self._turns[conversation.id] = self._vectors([said(turn) for turn in conversation.turns])

    def scores(self, conversation: Conversation, question: str) -> NDArray[np.float64]:
        scores: NDArray[np.float64] = (self._turns[conversation.id] @ self._vectors([question])[0]).astype(np.float64)
        return scores


class Fusion(_Scoring):
    """Both, each divided by its best score for the question, added."""

    name, note = "fusion", "bm25 and dense, each over its best, added"

    def __init__(self, *arms: _Scoring) -> None:
        self._arms = arms

    def load(self, conversation: Conversation) -> None:
        """Nothing: the arms that it adds are loaded before it."""

    def scores(self, conversation: Conversation, question: str) -> NDArray[np.float64]:
        total = np.zeros(len(conversation.turns))
        for arm in self._arms:
            scores = arm.scores(conversation, question)
            total += scores / max(float(scores.max()), 1e-9)
        return total


def built_in(vectors: Vectors) -> list[Arm]:
    """The arms that stand beside perdure in every run, in the order in which they are to be loaded."""
    lexical, dense = Lexical(), Dense(vectors)
    return [lexical, dense, Fusion(lexical, dense)]


# ---------------------------------------------------------------------- peers' packages
class LangGraph(Arm):
    """LangGraph's store in memory with its own semantic search."""

    name, note = "langgraph", "InMemoryStore, index={embed: minilm}, namespace = conversation"

    def __init__(self, vectors: Vectors, folder: Path) -> None:
        with _package("langgraph"):
            from langgraph.store.base import PutOp
            from langgraph.store.memory import InMemoryStore
        self._put = PutOp
        self._store = InMemoryStore(
            index={"dims": vectors.dimension, "embed": lambda texts: vectors.lists(list(texts)), "fields": ["text"]}
        )

    def load(self, conversation: Conversation) -> None:
        self._store.batch(
            [self._put(("turns", conversation.id), turn.id, {"text": said(turn)}) for turn in conversation.turns]
        )

    def ask(self, conversation: Conversation, question: str, limit: int) -> list[str]:
        found = self._store.search(("turns", conversation.id), query=question, limit=limit)
        return [item.key for item in found]


class Chroma(Arm):
    """A chromadb collection by hand."""

    name, note = "chroma", "one collection, cosine, where={conversation}, minilm vectors"

    def __init__(self, vectors: Vectors, folder: Path) -> None:
        with _package("chromadb"):
            import chromadb
            from chromadb.config import Settings
        self._vectors = vectors
        client = chromadb.PersistentClient(str(folder / "chroma"), settings=Settings(anonymized_telemetry=False))
        self._collection = client.create_collection(
            "turns", embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
        )

    def load(self, conversation: Conversation) -> None:
        for session in by_sessions(conversation):
            texts = [said(turn) for turn in session]
            self._collection.add(
                ids=[f"{conversation.id}/{turn.id}" for turn in session],
                embeddings=self._vectors(texts),
                documents=texts,
                metadatas=[{"conversation": conversation.id, "turn": turn.id} for turn in session],
            )

    def ask(self, conversation: Conversation, question: str, limit: int) -> list[str]:
        found = self._collection.query(
            query_embeddings=self._vectors([question]),
            n_results=min(limit, len(conversation.turns)),
            where={"conversation": conversation.id},
            include=["metadatas"],
        )
        return [str(each["turn"]) for each in (found["metadatas"] or [[]])[0]]


class Mem0(Arm):
    """mem0's open package with its default store."""

    name, note = "mem0", "add(infer=False), embedded Qdrant, threshold 0, minilm as its EmbeddingBase"

    def __init__(self, vectors: Vectors, folder: Path) -> None:
        os.environ["MEM0_DIR"] = str(folder / "mem0")  # read on import
        with _package("mem0ai"):
            from mem0 import Memory
            from mem0.embeddings.base import EmbeddingBase

        class MiniLM(EmbeddingBase):
            def embed(self, text: str, memory_action: str | None = None) -> list[float]:
                return vectors.lists([text])[0]

            def embed_batch(self, texts: Sequence[str], memory_action: str | None = None) -> list[list[float]]:
                return vectors.lists(list(texts))

        unused = {"api_key": "never asked"}
        store = {"path": str(folder / "qdrant"), "embedding_model_dims": vectors.dimension, "on_disk": True}
        self._memory = Memory.from_config(
            {
                "llm": {"provider": "openai", "config": unused},
                "embedder": {"provider": "openai", "config": {**unused, "embedding_dims": vectors.dimension}},
                "vector_store": {"provider": "qdrant", "config": store},
                "history_db_path": str(folder / "history.db"),
            }
        )
        self._memory.embedding_model = MiniLM()
        self._turns: dict[str, str] = {}

    def load(self, conversation: Conversation) -> None:
        for session in by_sessions(conversation):
            messages = [{"role": turn.role, "content": said(turn)} for turn in session]
            told = self._memory.add(messages, user_id=conversation.id, infer=False)
            ids = [each["id"] for each in told["results"]]
            self._turns.update(zip(ids, (turn.id for turn in session), strict=True))

    def ask(self, conversation: Conversation, question: str, limit: int) -> list[str]:
        found = self._memory.search(question, filters={"user_id": conversation.id}, top_k=limit, threshold=0.0)
        return [self._turns[each["id"]] for each in found["results"]]

    def close(self) -> None:
        self._memory.close()


PEERS: dict[str, Callable[[Vectors, Path], Arm]] = {"mem0": Mem0, "langgraph": LangGraph, "chroma": Chroma}
"""Made with the vectors and an empty folder of its own; NotInstalledError where the package is not here."""


@contextmanager
def _package(name: str) -> Iterator[None]:
    """Import a peer's package quietly."""
    os.environ.update(QUIET)
    try:
        yield
    except ImportError as error:
        raise NotInstalledError(f"{name} is not installed here ({error})") from None
