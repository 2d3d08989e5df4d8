"""Calls of Ollama's embedder at a wire server."""

from __future__ import annotations

from typing import Any

import numpy as np

from perdure.backends.embedders.ollama import OllamaEmbedder
from perdure.backends.registry import build
from tests.backends.embedders.embedder_calls import Calls
from tests.backends.wire.vectors import vector_of


def make(address: str, **config: Any) -> OllamaEmbedder:
    config = {"base_url": address, "model": "all-minilm", "retry_delay": 0, "retries": 2, "timeout": 30, **config}
    return build("embedders", "ollama", config)


at, embed, fails = Calls(make).at, Calls(make).embed, Calls(make).fails


def expected(*texts: str, dimension: int = 384) -> np.ndarray:
    return np.stack([vector_of(text, dimension) for text in texts])
