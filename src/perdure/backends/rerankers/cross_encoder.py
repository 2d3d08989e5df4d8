"""A cross-encoder on ONNX Runtime, run here: without PyTorch, server or key (spec 002 §3 step 2, K28, A15)."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from perdure.backends.blocking import run_blocking
from perdure.backends.rerankers._cross_encoder_download import HUB, Progress, download
from perdure.backends.rerankers._cross_encoder_files import (
    GRAPHS,
    NAME,
    TOKENIZER,
    ModelFiles,
    downloaded_folder,
    find_model,
)
from perdure.backends.rerankers._cross_encoder_model import CrossEncoder, load_model
from perdure.backends.rerankers._texts import readable_query, readable_texts
from perdure.backends.rerankers.base import Reranker
from perdure.backends.user_cache import user_cache_dir
from perdure.domain.errors import ConfigError, DependencyError

DEFAULT = "Xenova/ms-marco-MiniLM-L-6-v2"
"""The model that spec 002 §3 names: ms-marco-MiniLM-L-6-v2 of sentence-transformers, as ONNX."""
PIP_LINE = 'pip install "perdure[cross_encoder]"'


class CrossEncoderReranker(Reranker):
    """A cross-encoder from the Hugging Face hub or a folder; scores are its raw logits.

    Nothing is loaded before the first texts, and nothing is ever fetched but by `download`. DependencyError if
    something is missing (`unavailable` says beforehand) and RerankerError if the model cannot be read or run.
    """

    name: ClassVar[str] = "cross_encoder"

    class Settings(BaseModel):
        """Which model, where it lies, and how much of a pair it reads."""

        model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

        model: str = Field(default=DEFAULT, pattern=NAME)
        """The model's name on the hub; its repository must hold tokenizer.json and an ONNX graph."""
        path: Path | None = None
        """A folder with tokenizer.json and onnx/model.onnx, model.onnx or onnx/model_quantized.onnx; None: the
        downloaded model."""
        max_length: int = Field(default=512, ge=16, le=8192)
        """Tokens of a query and a text together; of longer ones the longer is cut first."""
        batch_size: int = Field(default=32, ge=1, le=1024)
        """Texts that are read in one run at most."""
        threads: int = Field(default=1, ge=1, le=256)
        """Threads of one call. More than one only pays on a machine that is otherwise idle."""
        cache_dir: Path | None = None
        """Folder of downloads; None: the user's cache folder."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._cache_dir = settings.cache_dir.expanduser() if settings.cache_dir else user_cache_dir()
        self._model: CrossEncoder | None = None
        self._lock = threading.Lock()

    async def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        """The logit of each text; a cancelled call stops the work after the run that is under way."""
        asked, readable = readable_query(query), readable_texts(texts)
        if not readable:
            return []
        given_up = threading.Event()
        try:
            return await run_blocking(self._score, asked, readable, given_up)
        finally:
            given_up.set()

    def unavailable(self) -> str | None:
        """What to install, or None; looks for files and packages and loads neither."""
        missing = [each for each in ("onnxruntime", "tokenizers") if importlib.util.find_spec(each) is None]
        if missing:
            return f"cross_encoder needs {' and '.join(missing)}: {PIP_LINE}"
        return self._no_model() if self._find() is None else None

    @staticmethod
    def download(
        target: Path | None = None,
        progress: Progress | None = None,
        *,
        model: str = DEFAULT,
        cache_dir: Path | None = None,
        base_url: str = HUB,
        timeout: float = 30.0,
    ) -> Path:
        """Fetch the model into `target`, by default the folder where cross_encoder looks for it; return the folder.

        `model` and `cache_dir` are the settings of those names. Blocks; the only call that uses the network. On the way
        it calls `progress(file, bytes_done, bytes_total)`.
        RerankerError (code `download_failed`) without network or with wrong content, ConfigError for a wrong name.
        """
        if target is None:
            cache_dir = cache_dir or user_cache_dir()
            if cache_dir is None:
                raise ConfigError("this user has no home folder: name the folder to download into", field="target")
            target = downloaded_folder(model, cache_dir)
        return download(model, target, progress, base_url=base_url, timeout=timeout)

    async def close(self) -> None:
        """Let go of the model; a later call would load it again."""
        with self._lock:
            self._model = None

    def _score(self, query: str, texts: list[str], given_up: threading.Event) -> list[float]:
        return self._load().score(query, texts, given_up.is_set)

    def _load(self) -> CrossEncoder:
        with self._lock:
            if self._model is None:
                reason, files, settings = self.unavailable(), self._find(), self._settings
                if reason or files is None:
                    raise DependencyError(reason or self._no_model())
                self._model = load_model(
                    files,
                    max_length=settings.max_length,
                    batch_size=settings.batch_size,
                    threads=settings.threads,
                )
            return self._model

    def _find(self) -> ModelFiles | None:
        if self._settings.path:
            return find_model(self._settings.path.expanduser())
        return find_model(downloaded_folder(self._settings.model, self._cache_dir)) if self._cache_dir else None

    def _no_model(self) -> str:
        if self._settings.path:
            return f"cross_encoder finds no {TOKENIZER} with {' or '.join(GRAPHS)} in {self._settings.path}"
        return (
            f"cross_encoder finds no weights of {self._settings.model}: run `perdure init --download`, "
            "or set reranker.config.path to a folder that holds them"
        )
