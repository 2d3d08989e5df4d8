"""What 002 §6's keys come to in perdure's own settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from perdure.domain.errors import ConfigError
from perdure.domain.text import shown
from perdure.engine.config import MemoryConfig, read_config

_OWN_MODELS = {"minilm": "minilm", "all-minilm-l6-v2": "minilm", "hashed": "hashed"}
"""Models that run here without a download of their own, by the last part of their names."""


def client_config(
    *,
    memory_path: Path,
    openai_base_url: str,
    chat_api_key: str | None,
    embedding_base_url: str | None,
    embedding_model: str,
    embedding_api_key: str | None,
    embedding_dimensions: int | None,
    gateway: dict[str, Any],
) -> MemoryConfig:
    """The configuration of a MemoryClient: records in `memory_path`, turns searched, updates that leave tombstones."""
    upstream: dict[str, Any] = {"base_url": openai_base_url}
    if chat_api_key is not None:
        upstream["api_key"] = chat_api_key
    return read_config(
        {
            "path": str(memory_path),
            "embedder": _embedder(
                embedding_model,
                embedding_base_url or openai_base_url,
                embedding_api_key or chat_api_key,
                embedding_dimensions,
            ),
            "episodes": "search",
            "updates": "supersede",
            "gateway": {**gateway, "upstream": upstream},
        }
    )


def _embedder(model: str, base_url: str, api_key: str | None, dimensions: int | None) -> dict[str, Any]:
    """The embedder of a model's name: one of our own, a folder with a model, or one of the server's (K62)."""
    if not isinstance(model, str) or not model.strip():
        raise ConfigError(
            f"embedding_model must name a model or a folder, not {shown(model)}", field="embedding_model", value=model
        )
    own = _OWN_MODELS.get(model.rpartition("/")[2].lower())
    if own is not None:
        return {"provider": own}
    given = {} if dimensions is None else {"dimensions": dimensions}
    folder = Path(model).expanduser()
    if folder.is_dir():
        return {"provider": "huggingface", "config": {"path": str(folder), **given}}
    key = {} if api_key is None else {"api_key": api_key}
    return {"provider": "openai", "config": {"model": model, "base_url": base_url, **key, **given}}
