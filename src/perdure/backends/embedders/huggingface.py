"""Hugging Face's embedding models: hosted, behind an endpoint of one's own, or run here from a folder."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, SecretStr, model_validator

from perdure.backends.blocking import run_blocking
from perdure.backends.embedders._huggingface_endpoint import Endpoint, is_hosted
from perdure.backends.embedders._huggingface_folder import ModelFolder, load_encoder, read_folder
from perdure.backends.embedders._onnx import OnnxEncoder
from perdure.backends.embedders._texts import readable_texts
from perdure.backends.embedders.base import Embedder
from perdure.backends.registry import missing_driver
from perdure.backends.service import ServiceSettings, key_or_fail, secret_from
from perdure.domain.errors import ConfigError

DEFAULT = "sentence-transformers/all-MiniLM-L6-v2"
MODELS = {
    DEFAULT: 384,
    "sentence-transformers/all-MiniLM-L12-v2": 384,
    "sentence-transformers/all-mpnet-base-v2": 768,
    "sentence-transformers/multi-qa-MiniLM-L6-cos-v1": 384,
    "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2": 384,
    "sentence-transformers/paraphrase-multilingual-mpnet-base-v2": 768,
    "BAAI/bge-small-en-v1.5": 384,
    "BAAI/bge-base-en-v1.5": 768,
    "BAAI/bge-large-en-v1.5": 1024,
    "BAAI/bge-m3": 1024,
    "intfloat/e5-small-v2": 384,
    "intfloat/e5-base-v2": 768,
    "intfloat/e5-large-v2": 1024,
    "intfloat/multilingual-e5-small": 384,
    "intfloat/multilingual-e5-base": 768,
    "intfloat/multilingual-e5-large": 1024,
    "thenlper/gte-small": 384,
    "thenlper/gte-base": 768,
    "thenlper/gte-large": 1024,
    "mixedbread-ai/mxbai-embed-large-v1": 1024,
    "nomic-ai/nomic-embed-text-v1.5": 768,
    "Qwen/Qwen3-Embedding-0.6B": 1024,
    "Snowflake/snowflake-arctic-embed-xs": 384,
    "Snowflake/snowflake-arctic-embed-s": 384,
    "Snowflake/snowflake-arctic-embed-m": 768,
    "Snowflake/snowflake-arctic-embed-l": 1024,
}
"""Models whose dimension is known (hidden_size in the config.json of each)."""
_PIP_LINE = 'pip install "perdure[huggingface]"'


class HuggingFaceEmbedder(Embedder):
    """A model of the Hugging Face Hub; vectors of length 1.

    With `path` the ONNX model in that folder runs here; with `base_url` a server answers, such as
    text-embeddings-inference or an Inference Endpoint; with neither the hosted router does. Construction sends and
    loads nothing. ConfigError without a key for the router, for a dimension that is not known, and for a folder whose
    vectors cannot be made here. Failures are EmbeddingError with the codes of the `openai` embedder.
    """

    name: ClassVar[str] = "huggingface"

    class Settings(ServiceSettings):
        """Which model, where it runs, and how long its vectors are."""

        model: str | None = Field(default=None, min_length=1)
        """The model's name on the Hub; None: all-MiniLM-L6-v2 at the router, else what the server or the folder has."""
        dimensions: int | None = Field(default=None, ge=1, le=65_536)
        """Length of the vectors; None: the model's own, where it is known."""
        api_key: SecretStr | None = Field(
            default_factory=partial(secret_from, "HF_TOKEN", "HUGGINGFACE_API_KEY", "HUGGING_FACE_HUB_TOKEN")
        )
        """Falls back to HF_TOKEN, HUGGINGFACE_API_KEY or HUGGING_FACE_HUB_TOKEN, which are sent to Hugging Face's own
        addresses alone; what is given here is sent to any."""
        base_url: str | None = None
        """Address of a server of one's own."""
        path: Path | None = None
        """A folder with model.onnx or onnx/model.onnx, tokenizer.json and config.json."""
        batch_size: int = Field(default=32, ge=1, le=2048)
        """Texts in one request at most (text-embeddings-inference takes 32 by default); fewer once a server says so."""
        threads: int = Field(default=1, ge=1, le=256)
        """Threads of one embedding call with `path`."""

        @model_validator(mode="after")
        def _runs_in_one_place(self) -> HuggingFaceEmbedder.Settings:
            if self.path and self.base_url:
                raise ValueError("path and base_url exclude each other: the model runs here or there")
            return self

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._encoder: OnnxEncoder | None = None
        self._folder: ModelFolder | None = None
        self._endpoint: Endpoint | None = None
        if settings.path:
            self._folder = read_folder(settings.path.expanduser())
            self._dimension = _length(settings, self._folder.dimension, exactly=True)
        else:
            model = settings.model or (None if settings.base_url else DEFAULT)
            own = MODELS.get(model or "")
            self._dimension = _length(settings, own, exactly=False)
            self._endpoint = Endpoint(
                settings,
                model=model,
                base_url=settings.base_url,
                key=_key(settings),
                dimension=self._dimension,
                batch_size=settings.batch_size,
                asks_for_length=own is not None and own != self._dimension,
            )
            self._named = model or urlsplit(settings.base_url or "").netloc.rpartition("@")[2]

    @property
    def dimension(self) -> int:
        """As configured, else the model's own."""
        return self._dimension

    @property
    def label(self) -> str:
        """The provider, the model (of a folder the beginning of a hash of it) and the dimension."""
        named = self._folder.digest() if self._folder else self._named
        return f"{self.name}-{named}-{self._dimension}"

    async def embed_batch(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of shape (len(texts), dimension) and length 1; of a long text the model's share is read.

        Long lists become several requests, one after the other.
        """
        readable = readable_texts(texts)
        if not readable:
            return np.empty((0, self._dimension), dtype=np.float32)
        if self._endpoint:
            return await self._endpoint.embed(readable)
        return await run_blocking(self._encode, readable)

    def unavailable(self) -> str | None:
        """The pip line if what this way needs is not installed."""
        drivers = ("onnxruntime", "tokenizers") if self._folder else ("httpx2",)
        missing = [driver for driver in drivers if find_spec(driver) is None]
        return f"{self.name} needs {' and '.join(missing)}: {_PIP_LINE}" if missing else None

    async def close(self) -> None:
        """Close the connections, or let go of the model; a later call would load it again."""
        with self._lock:
            self._encoder = None
        if self._endpoint:
            await self._endpoint.close()

    def _encode(self, texts: list[str]) -> NDArray[np.float32]:
        return self._load().encode(texts)

    def _load(self) -> OnnxEncoder:
        with self._lock:
            if self._encoder is None:
                assert self._folder is not None, "only a folder is loaded"
                try:
                    self._encoder = load_encoder(self._folder, self._settings.threads)
                except ImportError as error:
                    raise missing_driver(self.name, error) from error
            return self._encoder


def _key(settings: HuggingFaceEmbedder.Settings) -> str | None:
    """The key to send; None where it is not needed, or is the environment's and the address a stranger's."""
    if settings.base_url is None:
        advice = ", or set base_url or path to run the model yourself"
        return key_or_fail(settings.api_key, needed=True, section="embedder", variable="HF_TOKEN", advice=advice)
    given = "api_key" in settings.model_fields_set or is_hosted(settings.base_url)
    return settings.api_key.get_secret_value() if settings.api_key and given else None


def _length(settings: HuggingFaceEmbedder.Settings, own: int | None, *, exactly: bool) -> int:
    """The length of the vectors; ConfigError if it is not known or the model cannot give it."""
    field = "embedder.config.dimensions"
    wanted = settings.dimensions
    if own is None and wanted is None:
        model = f"{settings.model!r} is no known model" if settings.model else "the model is not named"
        raise ConfigError(f"{field} is required: {model} ({', '.join(MODELS)})", field=field)
    if own is not None and wanted is not None and (wanted > own or (exactly and wanted != own)):
        bound = "exactly" if exactly else "at most"
        place = settings.path or settings.model or DEFAULT
        raise ConfigError(f"{field}: {place} gives {bound} {own}, not {wanted}", field=field, value=wanted)
    return wanted or own or 0
