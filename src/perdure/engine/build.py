"""Building an engine from its configuration: everything is checked, nothing is opened and no model is loaded."""

from __future__ import annotations

import json
from functools import partial

from perdure.backends import registry
from perdure.backends.embedders.base import Embedder
from perdure.backends.ledgers.base import Ledger
from perdure.backends.llms.base import LLM
from perdure.backends.vector_stores.base import VectorStore
from perdure.domain.clock import Clock, system_clock
from perdure.domain.errors import ConfigError
from perdure.engine.config import LLMConfig, MemoryConfig
from perdure.engine.curator import Curator, LLMCurator, RulesCurator
from perdure.engine.engine import Engine
from perdure.engine.kernel import Kernel


def build(config: MemoryConfig, *, clock: Clock = system_clock) -> Engine:
    """The engine of a configuration; ConfigError names what is wrong with which setting."""
    store_settings = dict(config.vector_store.config)
    if config.vector_store.provider == "sqlite":
        store_settings.setdefault("path", config.path / "memories.db")
    fresh_store = partial(registry.build, "vector_stores", config.vector_store.provider, store_settings)
    store: VectorStore = fresh_store()
    embedder: Embedder = registry.build("embedders", config.embedder.provider, config.embedder.config)
    _check_dimension(store, embedder, config.vector_store.collection_name)
    llm: LLM | None = None
    if config.llm is not None:
        llm = registry.build("llms", config.llm.provider, config.llm.config)
    kernel = Kernel(
        config,
        store=store,
        embedder=embedder,
        ledger=_ledger(config),
        llm=llm,
        curator=_curator(config, llm),
        clock=clock,
        fresh_store=fresh_store,
    )
    return Engine(kernel)


def _ledger(config: MemoryConfig) -> Ledger:
    """The ledger that the configuration names; no variable of the environment alone moves it (ADR 9)."""
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


def _curator(config: MemoryConfig, llm: LLM | None) -> Curator:
    if config.chosen_curator == "rules":
        return RulesCurator()
    if llm is None:
        raise ConfigError('curator is "llm", but no llm is configured', field="curator", value="llm")
    assert config.llm is not None, "the llm was built from it"
    return LLMCurator(
        llm,
        label=_label(config.llm),
        mode=config.reconcile,
        extraction_prompt=config.custom_prompts.fact_extraction,
        decision_prompt=config.custom_prompts.update_decision,
    )


def _label(config: LLMConfig) -> str:
    """The model and all its settings but the key, by which its answers are told from another's.

    The settings in force, not those given: an address or a model may come from the environment.
    """
    settings = registry.load("llms", config.provider).Settings(**config.config).model_dump(exclude={"api_key"})
    return json.dumps([config.provider, settings], sort_keys=True, default=str)


def _check_dimension(store: VectorStore, embedder: Embedder, collection: str) -> None:
    stored = store.stored_dimension(collection)
    if stored is not None and stored != embedder.dimension:
        raise ConfigError(
            f"the collection {collection!r} holds vectors of {stored} dimensions, but the embedder {embedder.name!r}"
            f" makes {embedder.dimension}: configure the embedder it was made with, or another collection_name",
            field="embedder",
            value=embedder.name,
        )
