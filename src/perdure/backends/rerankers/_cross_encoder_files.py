"""Where a cross-encoder lies on this machine: the graph, the tokenizer, and what its config.json says of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

GRAPHS = ("onnx/model.onnx", "model.onnx", "onnx/model_quantized.onnx")
"""Where Hugging Face's repositories keep the ONNX graph, the best first (A15)."""
TOKENIZER = "tokenizer.json"
CONFIG = "config.json"
NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)?$"
"""A repository of the hub, with or without an owner; no part of it can lead out of a folder."""
_SHIFTED = {"roberta", "xlm-roberta", "camembert", "mpnet"}
"""Models whose positions begin behind the padding's number, so that they read that many fewer tokens."""


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The two files that make a cross-encoder."""

    graph: Path
    tokenizer: Path


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """What config.json says; None where it says nothing."""

    padding: int | None = None
    """The number of the padding token."""
    most_tokens: int | None = None
    """The longest pair, in tokens, for which the model has positions."""


def find_model(folder: Path) -> ModelFiles | None:
    """The first graph of GRAPHS that lies in the folder, with the tokenizer; None if either is missing."""
    graph = next((folder / name for name in GRAPHS if (folder / name).is_file()), None)
    tokenizer = folder / TOKENIZER
    return ModelFiles(graph, tokenizer) if graph and tokenizer.is_file() else None


def model_config(files: ModelFiles) -> ModelConfig:
    """What the config.json beside the tokenizer says; nothing without a readable one: the tokenizer knows enough."""
    try:
        told = json.loads((files.tokenizer.parent / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ModelConfig()
    if not isinstance(told, dict):
        return ModelConfig()
    padding, positions = _count(told.get("pad_token_id")), _count(told.get("max_position_embeddings"))
    if positions and told.get("model_type") in _SHIFTED:
        positions -= (padding or 0) + 1
    return ModelConfig(padding, positions or None)


def downloaded_folder(model: str, cache_dir: Path) -> Path:
    """Where a download of the model lies: under its whole name, so that two owners' models never meet (A15)."""
    return cache_dir / "rerankers" / model


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None
