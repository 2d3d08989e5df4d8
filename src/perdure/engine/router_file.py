"""The settings file of spec 001 §10, read as perdure's own settings (V59).

`memory` and `external_models` are 001's tables; every other table of the file is perdure's own, and stands above what
these two come to. A model whose role is none of the memory's is the router's, and is left to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from perdure.backends.validation import config_error
from perdure.domain.errors import ConfigError

MINILM = "all-minilm-l6-v2"
MINILM_DIMENSION = 384
"""001's own embedding model, which is the embedded set's."""
TABLES = ("memory", "external_models")
"""The tables that are 001's."""

Role = Literal["memory_rewrite", "memory_extraction"]
_T = TypeVar("_T", bound=BaseModel)


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


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
"""Tokens of an answer where the file names no number (V24, V61)."""


def is_router_file(values: Mapping[str, Any]) -> bool:
    """Whether a settings file has a table of 001's."""
    return any(name in values for name in TABLES)


def from_router_file(values: Mapping[str, Any]) -> dict[str, Any]:
    """Perdure's settings for those of a file; ConfigError names the key that is wrong, as the file spells it."""
    memory = _read(_Memory, values.get("memory") or {}, "memory")
    settings: dict[str, Any] = {"gateway": _gateway(memory)}
    if memory.milvus is not None:
        settings["vector_store"] = {
            "provider": "milvus",
            "config": {"uri": f"http://{memory.milvus.address}"},
            "collection_name": memory.milvus.collection,
        }
    if memory.embedding is not None or memory.milvus is not None:
        settings["embedder"] = _embedder(memory.embedding or _Embedding(), memory.milvus)
    for role, model in _models(values.get("external_models") or []).items():
        llm = {"provider": "openai", "config": _llm(model)}
        settings |= {"extraction_llm": llm} if role == "memory_extraction" else {"rewrite_llm": llm, "rewrite": "llm"}
    return settings


def _gateway(memory: _Memory) -> dict[str, Any]:
    names = ("default_retrieval_limit", "default_similarity_threshold", "extraction_batch_size")
    given = {name: value for name in names if (value := getattr(memory, name)) is not None}
    return {"enabled": memory.enabled, "auto_store": memory.auto_store, **given}


def _embedder(embedding: _Embedding, milvus: _Milvus | None) -> dict[str, Any]:
    """The embedder; ConfigError where its vectors would not fit the collection (V60)."""
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
    """The models by their roles, of those that are the memory's."""
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


def _llm(model: _Model) -> dict[str, Any]:
    """A server of one's own that speaks OpenAI's language, as vLLM does."""
    return {
        "model": model.llm_model_name,
        "base_url": f"http://{model.llm_endpoint.address}:{model.llm_endpoint.port}/v1",
        "timeout": model.llm_timeout_seconds,
        "max_tokens": model.max_tokens or _TOKENS[model.model_role],
        "temperature": model.temperature,
    }


def _read(table: type[_T], values: object, section: str) -> _T:
    try:
        return table.model_validate(values)
    except ValidationError as error:
        raise config_error(error, table, section) from error
