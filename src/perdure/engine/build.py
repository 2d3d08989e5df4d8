"""Build an engine from its configuration: check everything, open nothing, load no model."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure.backends import registry
from perdure.domain.clock import Clock, system_clock
from perdure.domain.errors import ConfigError
from perdure.engine.config.config import LLMConfig, MemoryConfig, asked_by_role
from perdure.engine.core.collections import check_stored, stored_shape
from perdure.engine.core.kernel import Kernel
from perdure.engine.engine import Engine
from perdure.engine.maintenance.tasks import Quotas

if TYPE_CHECKING:
    from perdure.backends.embedders.base import Embedder
    from perdure.backends.graphs.base import GraphStore
    from perdure.backends.ledgers.base import Ledger
    from perdure.backends.llms.base import LLM
    from perdure.backends.rerankers.base import Reranker
    from perdure.backends.vector_stores.base import VectorStore
    from perdure.engine.core.kernel import ChangeObserver, FileObserver
    from perdure.engine.write.curator import Curator


def build(config: MemoryConfig, *, clock: Clock = system_clock, any_embedder: bool = False) -> Engine:
    """Build the engine of a configuration; ConfigError names a wrong setting.

    With `any_embedder` the memories may be of another embedder than configured, as before they are re-embedded.
    """
    store_settings = _with_path(config.vector_store.provider, config.vector_store.config, config.path)
    if config.vector_store.provider == "markdown":
        store_settings.setdefault("collection", config.vector_store.collection_name)
    fresh_store = partial(registry.build, "vector_stores", config.vector_store.provider, store_settings)
    store: VectorStore = fresh_store()
    embedder: Embedder = registry.build("embedders", config.embedder.provider, config.embedder.config)
    if not any_embedder:
        embedder = _as_the_files_were(config, store, embedder)
        check_stored(store, config.vector_store.collection_name, embedder)
    llm: LLM | None = None
    if config.llm is not None:
        llm = registry.build("llms", config.llm.provider, config.llm.config)
    rewriter = llm
    if config.rewrite_llm is not None:
        rewriter = registry.build("llms", config.rewrite_llm.provider, config.rewrite_llm.config)
    if config.rewrite != "prepend" and rewriter is None:
        raise ConfigError(
            f'rewrite is "{config.rewrite}", but no llm is configured', field="rewrite", value=config.rewrite
        )
    curator = cache(_curator(config, llm, embedder))
    extractor = llm if config.chosen_curator == "llm" else None
    if config.extraction_llm is not None:
        extractor = registry.build("llms", config.extraction_llm.provider, config.extraction_llm.config)
    reranker: Reranker | None = None
    if config.reranker is not None:
        reranker = registry.build("rerankers", config.reranker.provider, config.reranker.config)

    async def erase_again(ids: Sequence[str]) -> None:
        await engine.forget.again(ids)

    kernel = Kernel(
        config,
        store=store,
        embedder=embedder,
        ledger=build_ledger(config),
        llm=llm,
        rewriter=rewriter,
        extractor=extractor,
        reranker=reranker,
        curator=curator,
        reader=curator
        if config.extraction_llm is None
        else partial(reader_by, config, config.extraction_llm, extractor),
        clock=clock,
        fresh_store=fresh_store,
        change_observer=_graph_sync(config),
        file_observer=_file_sync(store, erase_again),
        quota=Quotas if config.upkeep.max_memories_per_user else None,
    )
    engine = Engine(kernel)
    return engine


def _as_the_files_were(config: MemoryConfig, store: VectorStore, embedder: Embedder) -> Embedder:
    """Return the embedder for a folder of files without settings, such as a `MemoryClient`'s.

    If no embedder is named and the index was made by words alone, it is `hashed` with the index's length.
    """
    shape = stored_shape(store, config.vector_store.collection_name)
    if config.vector_store.provider != "markdown" or "embedder" in config.model_fields_set or shape is None:
        return embedder
    hashed: Embedder = registry.build("embedders", "hashed", {"dimensions": shape.dimension})
    return hashed if shape.model == hashed.label else embedder


def _graph_sync(config: MemoryConfig) -> Callable[[Kernel], ChangeObserver] | None:
    """Return a factory for the configured graph's sync; a `sqlite` graph is in the folder, as a store is."""
    if config.graph_store is None:
        return None
    from perdure.engine.graph.sync import GraphSync

    settings = dict(config.graph_store.config)
    if config.graph_store.provider == "sqlite":
        settings.setdefault("path", config.graph_path)
    fresh: Callable[[], GraphStore] = partial(registry.build, "graphs", config.graph_store.provider, settings)
    return partial(GraphSync, fresh=fresh)


def _file_sync(
    store: VectorStore, erase: Callable[[Sequence[str]], Awaitable[None]]
) -> Callable[[Kernel], FileObserver] | None:
    """Return a factory for the file watcher of a store with files."""
    if "perdure.backends.markdown.base" not in sys.modules:
        return None  # a store in files is a subclass of the port there, and has imported it
    from perdure.backends.markdown.base import FileStore
    from perdure.engine.markdown.file_sync import FileSync

    return partial(FileSync, watch=store.watched, erase=erase) if isinstance(store, FileStore) else None


def _with_path(provider: str, settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return a store's settings; a `sqlite` or `markdown` one without a path, also behind another, is in the folder.

    The store behind `markdown` is its index.
    """
    found = dict(settings)
    if provider == "sqlite":
        found.setdefault("path", folder / "memories.db")
    if provider == "markdown":
        place = found.setdefault("path", folder)
        folder = Path(place) / "index" if isinstance(place, (str, os.PathLike)) else folder
    behind = found.get("store")
    wraps = provider in ("cached", "markdown")
    if wraps and isinstance(behind, dict) and isinstance(behind.get("config", {}), dict):
        found["store"] = {**behind, "config": _with_path(str(behind.get("provider")), behind.get("config", {}), folder)}
    return found


def build_ledger(config: MemoryConfig) -> Ledger:
    """Build the configured ledger; an environment variable alone never moves it (ADR 9)."""
    settings = dict(config.history.config)
    if config.history.db_path is not None and (config.history.provider != "sqlite" or "path" in settings):
        raise ConfigError(
            "history.db_path is the file of a sqlite ledger, but history also names another place",
            field="history.db_path",
            value=str(config.history.db_path),
        )
    if config.history.provider == "sqlite":
        settings.setdefault("path", config.ledger_path)
    ledger: Ledger = registry.build("ledgers", config.history.provider, settings)
    return ledger


def _curator(config: MemoryConfig, llm: LLM | None, embedder: Embedder) -> Callable[[], Curator]:
    """Return the curator's factory; its rules or prompts are imported with the first write."""
    if config.chosen_curator == "rules":
        return partial(_by_rules, config, embedder)
    if llm is None or config.llm is None:
        raise ConfigError('curator is "llm", but no llm is configured', field="curator", value="llm")
    return partial(_by_model, llm, label=_label(config.llm), **_asked(config))


def _by_rules(config: MemoryConfig, embedder: Embedder) -> Curator:
    from perdure.engine.write.curator import RulesCurator

    return RulesCurator(
        config.reading_limit,
        keeps_words=config.episodes != "off",
        takes_notes=config.takes_notes,
        judge=embedder.judge,
    )


def _by_model(llm: LLM, **asked: Any) -> Curator:
    from perdure.engine.write.curator import LLMCurator

    return LLMCurator(llm, **asked)


def reader_by(config: MemoryConfig, named: LLMConfig, llm: LLM | None) -> Curator:
    """Return the curator of gateway conversations, with the role `memory_extraction` or a caller's model."""
    assert llm is not None, "it was built from its configuration"
    role = asked_by_role(named, max_tokens=500, temperature=0.1)
    return _by_model(llm, label=_label(named), **role, **_asked(config))


def _asked(config: MemoryConfig) -> dict[str, Any]:
    """Return the parameters of a model's calls."""
    return {
        "mode": config.reconcile,
        "extraction_prompt": config.custom_prompts.fact_extraction,
        "decision_prompt": config.custom_prompts.update_decision,
        "takes_notes": config.takes_notes,
    }


def _label(config: LLMConfig) -> str:
    """Return the model with all its effective settings except the key, which distinguishes its answers."""
    settings = registry.load("llms", config.provider).Settings(**config.config).model_dump(exclude={"api_key"})
    return json.dumps([config.provider, settings], sort_keys=True, default=str)


_SAID = "I moved to Oslo last week. My sister Ana works at the harbour and has two dogs."


def load_rules() -> None:
    """Read a sentence and a question by the rules, so that their modules, the search's and word files are loaded.

    The first messages would otherwise wait some tenths of a second for that.
    """
    import perdure.engine.read.search  # noqa: F401 - the first search would import it
    from perdure.domain.message import Message
    from perdure.pipeline.curation.rules.extraction import read_messages
    from perdure.pipeline.curation.rules.reconciliation import decide
    from perdure.pipeline.curation.rules.slots import read_slots
    from perdure.pipeline.retrieval.question import read_question
    from perdure.pipeline.retrieval.search_gate import is_general, should_search

    now = datetime.now(UTC)
    for fact in read_messages([Message("user", _SAID)], now=now).facts:
        decide(fact, [])
        read_slots(fact.text)
    for question in ("Where does Ana work?", "What did I do last week?"):
        should_search(question)
        is_general(question)
        read_question(question, now=now)
