"""MemoryConfig: spec 000 §8.1's keys and perdure's own, composed of the backends' settings."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from perdure.backends.registry import missing_driver
from perdure.backends.validation import config_error
from perdure.domain.errors import ConfigError
from perdure.engine.chat.settings import GatewaySettings
from perdure.pipeline.maintenance.retention import GRACE_DAYS, INITIAL_DAYS, THRESHOLD

# The settings file of spec 001 §10, read as perdure's own settings.
#
# `memory` and `external_models` are 001's tables; every other table of the file is perdure's own, and stands above
# what these two come to. A model whose role is none of the memory's is the router's, and is left to it.

MINILM = "all-minilm-l6-v2"
MINILM_DIMENSION = 384  # 001's own embedding model, which is the embedded set's
TABLES = ("memory", "external_models")  # the tables that are 001's
Role = Literal["memory_rewrite", "memory_extraction"]
_T = TypeVar("_T", bound=BaseModel)


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class _Milvus(_Table):
    address: str = Field(min_length=1)
    collection: str = Field("agentic_memory", min_length=1)
    dimension: int | None = Field(None, ge=1)


class _Embedding(_Table):
    model: str = Field("all-MiniLM-L6-v2", min_length=1)
    dimension: int | None = Field(None, ge=1)


class _Memory(_Table):
    enabled: bool = True
    auto_store: bool = True
    milvus: _Milvus | None = None
    embedding: _Embedding | None = None
    default_retrieval_limit: int | None = Field(None, ge=1)
    default_similarity_threshold: float | None = Field(None, ge=0, le=1)
    extraction_batch_size: int | None = Field(None, ge=1)


class _Endpoint(_Table):
    address: str = Field(min_length=1)
    port: int = Field(ge=1, le=65535)


class _Model(_Table):
    llm_provider: Literal["vllm", "openai"] = "vllm"
    model_role: Role
    llm_endpoint: _Endpoint
    llm_model_name: str = Field(min_length=1)
    llm_timeout_seconds: float = Field(30.0, gt=0)
    max_tokens: int | None = Field(None, ge=1)
    temperature: float = Field(0.1, ge=0, le=2)


_TOKENS: Mapping[Role, int] = {"memory_rewrite": 100, "memory_extraction": 500}
"""Tokens of an answer where the file names no number."""


def is_router_file(values: Mapping[str, Any]) -> bool:
    """Whether a settings file has a table of 001's."""
    return any(name in values for name in TABLES)


def from_router_file(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a file's settings to perdure's; ConfigError names a wrong key as in the file."""
    memory = _read(_Memory, values.get("memory") or {}, "memory")
    names = ("default_retrieval_limit", "default_similarity_threshold", "extraction_batch_size")
    given = {name: value for name in names if (value := getattr(memory, name)) is not None}
    settings: dict[str, Any] = {"gateway": {"enabled": memory.enabled, "auto_store": memory.auto_store, **given}}
    if memory.milvus is not None:
        settings["vector_store"] = {
            "provider": "milvus",
            "config": {"uri": f"http://{memory.milvus.address}"},
            "collection_name": memory.milvus.collection,
        }
    if memory.embedding is not None or memory.milvus is not None:
        settings["embedder"] = _embedder(memory.embedding or _Embedding(), memory.milvus)
    for role, model in _models(values.get("external_models") or []).items():
        llm = {
            "provider": "openai",
            "config": {
                "model": model.llm_model_name,
                "base_url": f"http://{model.llm_endpoint.address}:{model.llm_endpoint.port}/v1",
                "timeout": model.llm_timeout_seconds,
                "max_tokens": model.max_tokens or _TOKENS[model.model_role],
                "temperature": model.temperature,
            },
        }
        settings |= {"extraction_llm": llm} if role == "memory_extraction" else {"rewrite_llm": llm, "rewrite": "llm"}
    return settings


def _embedder(embedding: _Embedding, milvus: _Milvus | None) -> dict[str, Any]:
    """Return the embedder; ConfigError if its vectors do not fit the collection."""
    name = embedding.model.rpartition("/")[2].lower()
    dimension = embedding.dimension or (MINILM_DIMENSION if name == MINILM else None)
    if name == MINILM and dimension != MINILM_DIMENSION:
        raise ConfigError(
            f"memory.embedding.dimension must be {MINILM_DIMENSION}, which vectors of {embedding.model} have, "
            f"not {dimension}",
            field="memory.embedding.dimension",
            value=dimension,
        )
    if milvus is not None and milvus.dimension is not None and dimension not in (None, milvus.dimension):
        raise ConfigError(
            f"memory.milvus.dimension is {milvus.dimension}, but vectors of {embedding.model} have {dimension}",
            field="memory.milvus.dimension",
            value=milvus.dimension,
        )
    if name == MINILM:
        return {"provider": "minilm"}
    return {"provider": "huggingface", "config": {"model": embedding.model, "dimensions": dimension}}


def _models(entries: object) -> dict[Role, _Model]:
    """Return the models of memory's roles."""
    if not isinstance(entries, list):
        raise ConfigError("external_models must be a list of models", field="external_models", value=entries)
    found: dict[Role, _Model] = {}
    for place, entry in enumerate(entries):
        role = entry.get("model_role") if isinstance(entry, dict) else None
        if isinstance(role, str) and not role.startswith("memory_"):
            continue
        model = _read(_Model, entry, f"external_models.{place}")
        if model.model_role in found:
            raise ConfigError(
                f"external_models has two models of the role {model.model_role}",
                field=f"external_models.{place}.model_role",
                value=model.model_role,
            )
        found[model.model_role] = model
    return found


def _read(table: type[_T], values: object, section: str) -> _T:
    try:
        return table.model_validate(values)
    except ValidationError as error:
        raise config_error(error, table, section) from error


DEFAULT_PATH = Path("~/.memory")  # where the embedded set keeps its files, and the ledger of spec 000 §3.1


def _without_nul(path: Path) -> Path:
    if "\x00" in str(path):
        raise ValueError("a path holds no NUL")
    return path


FilePath = Annotated[Path, AfterValidator(_without_nul)]  # a path that the file system could have
OPENAI_DEFAULT: dict[str, Any] = {
    "vector_store": {"provider": "memory"},
    "llm": {"provider": "openai", "config": {"model": "gpt-4o-mini"}},
    "embedder": {"provider": "openai", "config": {"model": "text-embedding-3-small"}},
}
"""What `Memory()` is where OPENAI_API_KEY is set (spec 000 §3.1); its ledger is `~/.memory/history.db`."""


class Section(BaseModel):
    """A part of the configuration; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, defer_build=True)


class ProviderSection(Section):
    """A provider, and its settings."""

    provider: str = Field(description="Name of the provider, or package.module:Class")
    config: dict[str, Any] = Field(default_factory=dict, description="The provider's own settings")


class VectorStoreConfig(ProviderSection):
    """The vector store and its settings."""

    provider: str = Field("sqlite", description="Name of the provider, or package.module:Class")
    collection_name: str = Field("memories", min_length=1, max_length=200, description="Collection for the memories")


class LLMConfig(ProviderSection):
    """A language model and its settings."""


class EmbedderConfig(ProviderSection):
    """The embedder and its settings."""

    provider: str = Field("minilm", description="Name of the provider, or package.module:Class")


class RerankerConfig(ProviderSection):
    """The reranker and its settings."""


class HistoryConfig(ProviderSection):
    """The ledger, its path, and its settings."""

    provider: str = Field("sqlite", description="Name of the provider, or package.module:Class")
    db_path: FilePath | None = Field(
        None,
        description="File of a `sqlite` ledger; by default `history.db` beside the vector store's file, else in `path`",
    )


class GraphStoreConfig(ProviderSection):
    """The graph store and its settings."""

    provider: str = Field("sqlite", description="Name of the provider, or package.module:Class")


def _without_none(value: Any) -> Any:
    return None if isinstance(value, dict) and value.get("provider") == "none" else value


ChosenGraphStore = Annotated[GraphStoreConfig | None, BeforeValidator(_without_none)]
"""A graph store; the provider `none` says in a file, which knows no null, that there is to be none."""


class ApproversConfig(Section):
    """The number of admins that must approve a promotion to each level; 0 is at once."""

    WORKING: int = Field(0, ge=0, description="Admins who must approve EPHEMERAL to WORKING")
    VALIDATED: int = Field(1, ge=0, description="Admins who must approve WORKING to VALIDATED")
    CANONICAL: int = Field(1, ge=0, description="Admins who must approve VALIDATED to CANONICAL")
    PUBLIC: int = Field(1, ge=0, description="Admins who must approve CANONICAL to PUBLIC")


class TeamConfig(Section):
    """Settings of team memory (spec 004)."""

    approvers: ApproversConfig = Field(default_factory=ApproversConfig)
    four_eyes: bool = Field(False, description="Whether nobody may approve their own request")
    ephemeral_days: int = Field(
        30, ge=0, description="Days after which an EPHEMERAL memory expires unless it is promoted; 0 is never"
    )


class CustomPrompts(Section):
    """Prompts that replace the built-in ones of the `llm` curator."""

    fact_extraction: str | None = Field(None, description="System prompt for extracting facts from a conversation")
    update_decision: str | None = Field(None, description="System prompt for deciding about a fact")


class UpkeepSettings(BaseModel):
    """Intervals and thresholds of a server's maintenance and of its commands; 0 hours is never."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, defer_build=True)

    expire_hours: float = Field(1.0, ge=0, description="Hours between two deletions of expired memories")
    prune_hours: float = Field(0.0, ge=0, description="Hours between two deletions of decayed memories")
    quota_hours: float = Field(1.0, ge=0, description="Hours between two checks for users over their quota")
    consolidate_hours: float = Field(0.0, ge=0, description="Hours between two merges of related memories")
    reflect_hours: float = Field(0.0, ge=0, description="Hours between two derivations of insights")
    backup_hours: float = Field(0.0, ge=0, description="Hours between two backups")

    consolidate_from: int = Field(20, ge=2, description="Memories that a user must have before any of them are merged")
    initial_strength_days: float = Field(INITIAL_DAYS, gt=0, description="S0 of R = e^(-t/S), in days")
    prune_threshold: float = Field(THRESHOLD, ge=0, le=1, description="R below which a memory is pruned")
    grace_days: float = Field(GRACE_DAYS, ge=0, description="Days for which a new fact is never pruned")

    max_memories_per_user: int = Field(0, ge=0, description="Maximum memories of one user; 0 is unlimited")
    when_full: Literal["evict", "refuse"] = Field(
        "evict", description="Whether a user over the quota loses the least valued memories, or new ones are rejected"
    )

    backup_folder: Path | None = Field(None, description="Where backups are written; by default `backups` in `path`")
    backups_kept: int = Field(7, ge=1, description="Number of scheduled backups that are kept, the newest")


class MemoryConfig(BaseModel):
    """All settings; parts left out are those of the embedded set.

    Sources in rising order: `PERDURE_...` variables (nested keys joined by two underscores, as in
    `PERDURE_VECTOR_STORE__PROVIDER`), then the arguments. `from_file` puts a file below both.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    path: FilePath = Field(DEFAULT_PATH, description="Folder of the embedded defaults' files")
    vector_store: VectorStoreConfig = Field(default_factory=VectorStoreConfig)
    embedder: EmbedderConfig = Field(default_factory=EmbedderConfig)
    llm: LLMConfig | None = Field(None, description="Language model; none by default")
    extraction_llm: LLMConfig | None = Field(
        None, description="Language model that reads the gateway's turns (001's `memory_extraction`); else the curator"
    )
    rewrite_llm: LLMConfig | None = Field(
        None, description="Language model that puts questions anew, where it is another than `llm` (001 §10)"
    )
    history: HistoryConfig = Field(default_factory=HistoryConfig)
    custom_prompts: CustomPrompts = Field(default_factory=CustomPrompts)
    curator: Literal["llm", "rules"] | None = Field(
        None, description="What extracts and reconciles facts; by default `llm` if one is configured, else `rules`"
    )
    reading_limit: int = Field(
        12_000,
        ge=1_000,
        description="Maximum characters of one call from which the rules extract facts, up to the end "
        "of a sentence; the rest is stored as episodes only, and `warnings` says so",
    )
    reconcile: Literal["batch", "per_fact", "append"] = Field(
        "batch",
        description="How the llm curator decides: about all facts in one call, in one call a fact, or never updating",
    )
    episodes: Literal["words", "notes", "keep", "search", "off"] = Field(
        "words",
        description="What becomes of messages: stored, with their sentences that no fact says as notes, and searched "
        "(`words`); stored, with notes (`notes`); stored (`keep`); stored and searched, without notes (`search`); not "
        "stored (`off`). With the store `markdown`, where each searched message is a file, the default is `notes`",
    )
    updates: Literal["in_place", "supersede"] = Field(
        "in_place", description="Whether an update keeps the id (the old text stays as a version) or makes a new memory"
    )
    graph_store: ChosenGraphStore = Field(
        None,
        description="Graph of entities and relations; none by default, and `sqlite` under `perdure serve` unless its "
        'provider is given as "none"',
    )
    team: TeamConfig = Field(default_factory=TeamConfig)
    server: dict[str, Any] = Field(default_factory=dict, description="Settings of `perdure serve` (docs/server.md)")
    gateway: GatewaySettings = Field(default_factory=GatewaySettings)
    upkeep: UpkeepSettings = Field(default_factory=UpkeepSettings)
    reranker: RerankerConfig | None = Field(None, description="Model that reads question and memory; none by default")
    preset: Literal["best", "plain", "router", "proxy"] = Field(
        "best", description="Steps of a search (docs/recall.md)"
    )
    rewrite: Literal["prepend", "llm", "hypothetical"] = Field(
        "prepend",
        description="How a question that depends on earlier messages is searched: with their key "
        "words, as the llm rewrites it, or (every question) by an answer that the llm "
        "makes up (HyDE)",
    )
    version: Literal["v1.0", "v1.1"] = Field("v1.1", description='"v1.0" answers `add` with a bare list (000 §8.1)')

    def __init__(self, **values: Any) -> None:
        """Apply the arguments over the `PERDURE_...` variables; no .env file is read."""
        super().__init__(**_of_files(_merge(variables(), values)))

    @property
    def chosen_curator(self) -> Literal["llm", "rules"]:
        """Return the effective curator."""
        return self.curator or ("llm" if self.llm is not None else "rules")

    @property
    def searches_messages(self) -> bool:
        """Return whether messages have rows in the vector store, by which they are searched as they were said."""
        return self.episodes in ("words", "search")

    @property
    def takes_notes(self) -> bool:
        """Return whether sentences that no fact says are kept as notes."""
        return self.episodes in ("words", "notes")

    @property
    def ledger_path(self) -> Path:
        """Return the path of a `sqlite` ledger (DESIGN §4): as set, else beside a given store path, else in `path`."""
        if self.history.db_path is not None:
            return self.history.db_path.expanduser()
        return self._folder / "history.db"

    @property
    def graph_path(self) -> Path:
        """Return the default path of a `sqlite` graph: beside a given store path, else in `path`."""
        return self._folder / "graph.db"

    @property
    def home(self) -> Path | None:
        """Return the folder that exists with the memory; None if its store may be elsewhere, as a server's."""
        return self._folder if self.vector_store.provider in ("sqlite", "markdown") else None

    @property
    def _folder(self) -> Path:
        store_path = self.vector_store.config.get("path")
        if isinstance(store_path, (str, os.PathLike)):
            found = Path(store_path).expanduser()
            return found if self.vector_store.provider == "markdown" else found.parent
        return self.path.expanduser()


def variables() -> dict[str, Any]:
    """Return the `PERDURE_...` variables with nested keys: tables and lists from JSON, everything else as text.

    Names are read in any case; a variable of one key stands above the JSON of its table. ConfigError if a table or a
    list is no JSON, unless the setting may be none: then it is text. A first key that is no setting is ignored.
    """
    told = {name.lower(): text for name, text in os.environ.items() if name.lower().startswith(_PREFIX)}
    found: dict[str, Any] = {}
    for name, field in MemoryConfig.model_fields.items() if told else ():
        variable, kind = f"{_PREFIX}{name}", field.annotation
        value: Any = told.get(variable)
        if _is_nested(kind):
            below = {key: told[key] for key in sorted(told) if key.startswith(f"{variable}__")}  # tables before keys
            value = _decoded(kind, variable, value) if value is not None else {} if below else None
            if isinstance(value, dict):
                value = _named(kind, _merge(value, _nested(kind, variable, below)))
        if value is not None:
            found[name] = value
    return found


_PREFIX = "perdure_"


def _is_nested(kind: Any) -> bool:
    """Whether a type has tables or lists."""
    origin = get_origin(kind) or kind
    if not isinstance(origin, type) or origin is UnionType:
        return any(map(_is_nested, get_args(kind)))
    return issubclass(origin, (BaseModel, dict, list))


def _decoded(kind: Any, variable: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        if type(None) in get_args(kind):
            return text
        raise ConfigError(
            f"{variable.upper()} must be written as JSON: {error}", field=variable.upper(), value=text
        ) from error


def _nested(kind: Any, variable: str, told: Mapping[str, str]) -> dict[str, Any]:
    """Return what the variables below one say."""
    found: dict[str, Any] = {}
    for name, text in told.items():
        table: Any = found
        inner = kind
        *keys, last = name.removeprefix(f"{variable}__").split("__")
        for key in keys:
            _, inner = _setting(inner, key)
            table = table.setdefault(key, {}) if isinstance(table, dict) else None
        _, inner = _setting(inner, last)
        if isinstance(table, dict):
            is_json = text and (_is_nested(inner) or (inner is None and get_origin(kind) is dict))
            table[last] = _decoded(inner or Any | None, name, text) if is_json else text
    return found


def _setting(kind: Any, key: str) -> tuple[str, Any]:
    """Return a key of a table as it is declared, and its type; None if the table has no such key."""
    if get_origin(kind) is dict:
        return key, get_args(kind)[-1]
    for each in get_args(kind):
        if (found := _setting(each, key))[1] is not None:
            return found
    fields = kind.model_fields if isinstance(kind, type) and issubclass(kind, BaseModel) else {}
    return next(
        ((name, field.annotation) for name, field in fields.items() if name.lower() == key.lower()), (key, None)
    )


def _named(kind: Any, values: dict[str, Any]) -> dict[str, Any]:
    """Return values of a table by the declared names of its keys."""
    found = {}
    for key, value in values.items():
        name, inner = _setting(kind, key)
        found[name] = _named(inner, value) if isinstance(value, dict) else value
    return found


def _of_files(values: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with what a folder of files has by default: no file for each message."""
    store = values.get("vector_store")
    provider = store.get("provider") if isinstance(store, dict) else getattr(store, "provider", None)
    return {"episodes": "notes", **values} if provider == "markdown" else values


def read_config(config: MemoryConfig | dict[str, Any] | None) -> MemoryConfig:
    """Return the configuration of a caller's argument; ConfigError names a wrong key and the nearest right one.

    None is spec 000 §3.1's default if OPENAI_API_KEY is set and no PERDURE_ variable is, else the embedded set.
    """
    if isinstance(config, MemoryConfig):
        return config
    if config is None and os.environ.get("OPENAI_API_KEY", "").strip() and not variables():
        config = OPENAI_DEFAULT
    if config is not None and not isinstance(config, dict):
        raise ConfigError(f"config must be a MemoryConfig or an object, not {config!r}", field="config", value=config)
    try:
        return MemoryConfig(**(config or {}))
    except ValidationError as error:
        raise config_error(error, MemoryConfig) from error
    except TypeError as error:  # keys that are not text
        raise ConfigError(f"config must have text as its keys: {error}", field="config", value=config) from error


IN_FILES: dict[str, Any] = {"vector_store": {"provider": "markdown"}, "episodes": "search", "updates": "supersede"}
"""What a memory in files is opened with where nothing is told: messages are files too, for who gets a copy of them."""


def read_folder(path: str | os.PathLike[str]) -> MemoryConfig:
    """Return the embedded set for a folder; one with `entries/` and no `memories.db` is a memory in files.

    So a clone or a copy opens correctly. A store named by a `PERDURE_...` variable applies to any folder.
    """
    folder = Path(path).expanduser()
    told = variables()
    values = told if "vector_store" in told or not in_files(folder) else _merge(IN_FILES, told)
    return read_config({**values, "path": os.fspath(path)})


def in_files(folder: Path) -> bool:
    """Whether a folder contains a memory in files."""
    return (folder / "entries").is_dir() and not (folder / "memories.db").exists()


def read_file(path: str | os.PathLike[str]) -> MemoryConfig:
    """Read the configuration of a TOML or YAML file, below the `PERDURE_...` variables; also 001's own tables."""
    file = Path(path).expanduser()
    try:
        values = read_tables(file)
    except FileNotFoundError as error:
        raise ConfigError(
            f"there is no file {file}: write one with `perdure init`", field="path", value=path
        ) from error
    except (OSError, ValueError) as error:
        kind = "YAML" if file.suffix in _YAML else "TOML"
        raise ConfigError(f"{file} cannot be read as {kind}: {error}", field="path", value=path) from error
    if is_router_file(values):
        own = {name: value for name, value in values.items() if name not in TABLES}
        told = from_router_file(values)
        values = {**told, **own, "gateway": _merge(told["gateway"], own.get("gateway", {}))}
    # Variables stand above the file, so they are laid over its values before these become arguments.
    return read_config(_merge(values, variables()))


_YAML = (".yaml", ".yml")


def read_tables(file: Path) -> dict[str, Any]:
    """Return the tables of a settings file; ValueError if it has none."""
    text = file.read_text(encoding="utf-8")
    if file.suffix not in _YAML:
        return tomllib.loads(text)
    try:
        import yaml  # of the extra `yaml`: TOML needs nothing
    except ImportError as error:
        raise missing_driver("yaml", error) from error
    try:
        values = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
    if not isinstance(values, dict):
        raise ValueError("it must be a table of settings")
    return values


def _merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        nested = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merge(merged[key], value) if nested else value
    return merged


def asked_by_role(named: LLMConfig | None, *, max_tokens: int, temperature: float) -> Mapping[str, Any]:
    """Return a call's `max_tokens` and `temperature`: the role's own, or None if the model's settings have one."""
    given = named.config if named is not None else {}
    own: dict[str, Any] = {"max_tokens": max_tokens, "temperature": temperature}
    return {name: None if name in given else value for name, value in own.items()}


def seconds_of(named: LLMConfig | None) -> float | None:
    """Return the time limit of an answer in seconds: the model's `timeout` (`llm_timeout_seconds`), or None."""
    given = named.config.get("timeout") if named is not None else None
    return float(given) if isinstance(given, (int, float)) else None
