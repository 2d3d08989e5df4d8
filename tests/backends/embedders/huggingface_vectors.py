"""Calls of Hugging Face's embedder at a wire server."""

from __future__ import annotations

from typing import Any

import numpy as np

from perdure.backends.embedders.huggingface import HuggingFaceEmbedder
from perdure.backends.registry import build
from tests.backends.embedders.embedder_calls import Calls
from tests.backends.wire.huggingface import DIMENSION, MODEL
from tests.backends.wire.vectors import vector_of

VARIABLES = ("HF_TOKEN", "HUGGINGFACE_API_KEY", "HUGGING_FACE_HUB_TOKEN")


def make(address: str, **config: Any) -> HuggingFaceEmbedder:
    config = {"base_url": address, "model": MODEL, "retry_delay": 0, "retries": 2, "timeout": 30, **config}
    return build("embedders", "huggingface", config)


at, embed, fails = Calls(make).at, Calls(make).embed, Calls(make).fails


def expected(*texts: str) -> np.ndarray:
    return np.stack([vector_of(text, DIMENSION) for text in texts])
