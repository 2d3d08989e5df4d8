"""Translate the settings of MemoryClient into perdure's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from perdure.backends.markdown.layout import ENTRIES
from perdure.domain.errors import ConfigError
from perdure.domain.text.readable import shown
from perdure.engine.config.config import MemoryConfig, read_config

_OWN_MODELS = {"minilm": "minilm", "all-minilm-l6-v2": "minilm", "hashed": "hashed"}
"""Local models that need no separate download, by the last part of their names."""
RECORDS = "memories.db"  # the data file of a `sqlite` store in the folder of a memory


def client_config(
    *,
    memory_path: Path,
    openai_base_url: str,
    chat_api_key: str | None,
    embedder: dict[str, Any],
    watch: bool,
    git: bool,
    gateway: dict[str, Any],
) -> MemoryConfig:
    """Make the configuration of a client: files in `memory_path`, turns searched, updates that leave tombstones.

    ConfigError names what is wrong.
    """
    refuse_records(memory_path)
    upstream: dict[str, Any] = {"base_url": openai_base_url}
    if chat_api_key is not None:
        upstream["api_key"] = chat_api_key
    return read_config(
        {
            "path": str(memory_path),
            "vector_store": {"provider": "markdown", "config": {"watch": watch, "git": git}},
            "embedder": embedder,
            "episodes": "search",
            "updates": "supersede",
            "gateway": {**gateway, "upstream": upstream},
        }
    )


def refuse_records(memory_path: Path) -> None:
    """Raise ConfigError if a folder holds memories as records, which are not visible in its files."""
    folder = memory_path.expanduser()
    if (folder / RECORDS).exists() and not (folder / ENTRIES).is_dir():
        raise ConfigError(
            f"{folder} holds memories as records ({RECORDS}) and not as files: bring them into another folder with "
            "`perdure copy` (docs/files.md), or name an empty one",
            field="memory_path",
            value=str(memory_path),
        )


def embedder_settings(model: str, base_url: str, api_key: str | None, dimensions: int | None) -> dict[str, Any]:
    """Return the embedder for a model's name: a local one, a folder with a model, or one of the server's."""
    if not isinstance(model, str) or not model.strip():
        raise ConfigError(
            f"embedding_model must name a model or a folder, not {shown(model)}", field="embedding_model", value=model
        )
    own = _own(model)
    if own is not None:
        return {"provider": own}
    given = {} if dimensions is None else {"dimensions": dimensions}
    folder = Path(model).expanduser()
    if folder.is_dir():
        return {"provider": "huggingface", "config": {"path": str(folder), **given}}
    key = {} if api_key is None else {"api_key": api_key}
    return {"provider": "openai", "config": {"model": model, "base_url": base_url, **key, **given}}


def _own(model: str) -> str | None:
    return _OWN_MODELS.get(model.rpartition("/")[2].lower())


def is_served(model: str) -> bool:
    """Whether a name is a model of the server and not a local one."""
    return _own(model) is None and not Path(model).expanduser().is_dir()
