"""Hugging Face's embedding models: hosted, at your own endpoint, or run locally from a folder."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote, urlsplit

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, SecretStr, model_validator

from perdure.backends.blocking import run_blocking
from perdure.backends.embedders._hosted import VectorRequests, known_dimension
from perdure.backends.embedders.base import HINT, Embedder
from perdure.backends.extras import extra_line
from perdure.backends.http import service
from perdure.backends.registry import missing_driver
from perdure.backends.shared import onnx
from perdure.backends.shared.metering import embedded
from perdure.domain.errors import ConfigError, EmbeddingError
from perdure.domain.text.readable import readable_texts

if TYPE_CHECKING:
    import httpx2

# A model in a folder as Hugging Face lays it out: the ONNX graph, the tokenizer, and what their settings say.

FIELD = "embedder.config.path"
GRAPHS = ("onnx/model.onnx", "model.onnx")
TOKENIZER = "tokenizer.json"
POOLINGS: dict[str, onnx.Pool] = {"mean": onnx.mean_of_tokens, "cls": onnx.first_token}
MAX_TOKENS = 512  # where neither the settings nor the tokenizer say how much the model reads: the length of BERT
_RUN_HERE = {"Transformer", "Pooling", "Normalize"}
"""Modules of sentence-transformers that are run: the graph, the pooling, and the scaling to length 1, which is always
done."""
_FLAGS = {"mean_tokens": "mean", "cls_token": "cls"}
_SHIFTED = {"roberta", "xlm-roberta", "camembert", "mpnet"}
"""Models whose positions begin behind the padding's number, so that they read that many fewer tokens."""
_OUTPUTS = ("sentence_embedding", "embedding", "last_hidden_state", "token_embeddings")


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """The files and settings to run the model; `most_tokens` and `padding` are None if the tokenizer's file decides."""

    graph: Path
    tokenizer: Path
    dimension: int
    pooling: str
    most_tokens: int | None
    padding: int | None

    def digest(self) -> str:
        """Return a hash of everything that the vectors depend on, as 12 hexadecimal digits."""
        weights = sorted(file for file in self.graph.parent.glob(f"{self.graph.name}*") if file.is_file())
        parts = [*map(onnx.fingerprint, [*weights, self.tokenizer]), self.pooling, str(self.most_tokens)]
        return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:12]


def read_folder(path: Path) -> ModelFolder:
    """Find the model in a folder; ConfigError if a file is missing or the model cannot be run here."""
    graph = next((path / name for name in GRAPHS if (path / name).is_file()), None)
    if graph is None or not (path / TOKENIZER).is_file():
        raise _wrong(path, f"holds no {TOKENIZER} with {' or '.join(GRAPHS)}")
    config = _object(path / "config.json")
    dimension = config.get("hidden_size", config.get("dim"))  # the latter is DistilBERT's word
    if not isinstance(dimension, int) or dimension < 1:
        raise _wrong(path, "does not say how long the vectors are: config.json has no hidden_size")
    padding = config.get("pad_token_id")
    return ModelFolder(
        graph=graph,
        tokenizer=path / TOKENIZER,
        dimension=dimension,
        pooling=_pooling(path),
        most_tokens=_most_tokens(path, config),
        padding=padding if isinstance(padding, int) else None,
    )


def load_encoder(folder: ModelFolder, threads: int) -> onnx.OnnxEncoder:
    """Load the model; EmbeddingError if a file is unreadable or the vectors have another length."""
    from tokenizers import Tokenizer  # heavy driver: on first use only

    try:
        tokenizer = Tokenizer.from_file(str(folder.tokenizer))
    except Exception as error:  # the driver raises plain Exception
        raise EmbeddingError(f"huggingface: {folder.tokenizer} is no readable tokenizer: {error}") from error
    most = folder.most_tokens or (tokenizer.truncation or {}).get("max_length", MAX_TOKENS)
    padding = folder.padding if folder.padding is not None else (tokenizer.padding or {}).get("pad_id", 0)
    tokenizer.no_padding()
    tokenizer.enable_truncation(most)
    session = onnx.start_session("huggingface", str(folder.graph), threads)
    return onnx.OnnxEncoder(
        "huggingface",
        session,
        _tokenize_with(tokenizer, padding),
        output=_output(session, folder.dimension),
        dimension=folder.dimension,
        pool=POOLINGS[folder.pooling],
        padding=padding,
    )


def _tokenize_with(tokenizer: Any, padding: int) -> onnx.Tokenize:
    # One text at a time: the driver's own batch call starts threads, and warns when the process forks later.
    def tokenize(text: str) -> list[int]:
        ids: list[int] = tokenizer.encode(text).ids
        return ids or [padding]  # a tokenizer that adds no special tokens makes none of an empty text

    return tokenize


def _output(session: onnx.Session, dimension: int) -> str:
    """Return the graph's sentence vector if it has one, else the token states; EmbeddingError without either."""
    shapes = {node.name: node.shape for node in session.get_outputs()}
    for name in _OUTPUTS:
        shape = shapes.get(name, [])
        if len(shape) in (2, 3) and (shape[-1] == dimension or not isinstance(shape[-1], int)):
            return name
    wanted = " or ".join(_OUTPUTS)
    raise EmbeddingError(f"huggingface: the graph has no {wanted} of {dimension} numbers, only {shapes}")


def _pooling(path: Path) -> str:
    """Return `mean` or `cls`; without settings `mean`, as in sentence-transformers."""
    place = "1_Pooling"
    for module in _listed(path / "modules.json"):
        kind = str(module.get("type")).rpartition(".")[2]
        if kind not in _RUN_HERE:
            raise _wrong(path, f"needs the module {kind} of modules.json, which is not run here")
        if kind == "Pooling":
            place = str(module.get("path"))
    config = _object(path / place / "config.json", needed=False)
    named = config.get("pooling_mode", [])
    flags = [key.removeprefix("pooling_mode_") for key, on in config.items() if key.startswith("pooling_mode_") and on]
    found: set[str] = {
        *([named] if isinstance(named, str) else named),
        *(_FLAGS.get(flag, flag) for flag in flags),
    } or {"mean"}
    if len(found) > 1 or not found <= set(POOLINGS):
        raise _wrong(path, f"pools by {' and '.join(sorted(found))}; known are {', '.join(POOLINGS)}")
    return found.pop()


def _most_tokens(path: Path, config: dict[str, Any]) -> int | None:
    """Return the token limit of sentence-transformers, else the tokenizer's; at most the number of positions."""
    own = _object(path / "sentence_bert_config.json", needed=False).get("max_seq_length")
    declared = _object(path / "tokenizer_config.json", needed=False).get("model_max_length")
    positions = config.get("max_position_embeddings")
    if isinstance(positions, int) and config.get("model_type") in _SHIFTED:
        positions -= int(config.get("pad_token_id") or 0) + 1
    # A tokenizer without a limit has the number 10**30 in its settings.
    known = [limit for limit in (own, declared) if isinstance(limit, int) and 0 < limit < 10**6][:1]
    limits = [*known, *([positions] if isinstance(positions, int) and positions > 0 else [])]
    return min(limits, default=None)


def _listed(file: Path) -> list[dict[str, Any]]:
    if not file.is_file():
        return []
    found = _json(file)
    if not isinstance(found, list) or not all(isinstance(module, dict) for module in found):
        raise _wrong(file, "is no list of modules")
    return found


def _object(file: Path, *, needed: bool = True) -> dict[str, Any]:
    if not needed and not file.is_file():
        return {}
    found = _json(file)
    if not isinstance(found, dict):
        raise _wrong(file, "holds no settings")
    return found


def _json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise _wrong(file, f"cannot be read ({type(error).__name__})") from None
    except ValueError:
        raise _wrong(file, "is no JSON") from None


def _wrong(path: Path, problem: str) -> ConfigError:
    return ConfigError(f"{FIELD}: {path} {problem}", field=FIELD, value=str(path))


# Embedding models behind HTTP as Hugging Face serves them: the hosted router, Inference Endpoints, and TEI.
#
# By plain HTTP, not by huggingface_hub: its asynchronous client looks a model up by blocking calls before it asks,
# sends the token that a user once stored on this machine to any address, and hides the headers that count the tokens.

ROUTER = "https://router.huggingface.co"
"""The hosted service (https://huggingface.co/docs/inference-providers/providers/hf-inference)."""
MOST_BYTES = 500_000  # bytes of text in one request; text-embeddings-inference takes 2 MB of JSON (--payload-limit)
PATH, SIZE = "path", "size"
"""What a RefusedError names: an address that the service does not have, a request that is too large."""

_WHOLE_ADDRESS = ("/embed", "/feature-extraction", "/invocations")
_OWN_STATUS = {402: "quota", 424: "server"}
"""Used-up credits of the router; a model that failed inside text-embeddings-inference."""
_MOST_TEXTS = re.compile(r"maximum allowed batch size (\d+)")


def is_hosted(base_url: str | None) -> bool:
    """Whether the address is Hugging Face's own, which is the default."""
    host = service.host_of(base_url) if base_url else "huggingface.co"
    return host == "huggingface.co" or host.endswith((".huggingface.co", ".huggingface.cloud"))


class Endpoint(VectorRequests):
    """A model behind an address; `model` is None for a server with a single model, `key` if none is sent."""

    def __init__(
        self,
        settings: service.ServiceSettings,
        *,
        model: str | None,
        base_url: str | None,
        key: str | None,
        dimension: int,
        batch_size: int,
        asks_for_length: bool,
    ) -> None:
        headers = {"authorization": f"Bearer {key}"} if key else {}

        def make(sdk: Any) -> httpx2.AsyncClient:
            client: httpx2.AsyncClient = sdk.AsyncClient(timeout=settings.timeout, headers=headers)
            return client

        self._service = _Service("huggingface", settings, make, EmbeddingError, key or service.NO_KEY)
        self._addresses = _addresses(model, base_url)
        self._model = model or service.host_of(self._addresses[0])
        self._dimension = dimension
        self._batch_size, self._batch_bytes = batch_size, MOST_BYTES
        self._asks_for_length = asks_for_length

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return vectors of length 1; EmbeddingError if the service fails or answers anything else."""
        return await self._vectors_of(texts)

    def _is_too_much(self, refused: service.RefusedError) -> bool:
        if found := _MOST_TEXTS.search(refused.said):
            self._batch_size = max(1, int(found.group(1)))
        return refused.parameter == SIZE

    async def _ask(self, texts: list[str]) -> list[list[float]]:
        body: dict[str, Any] = {"inputs": texts, "normalize": True, "truncate": True}
        if self._asks_for_length:
            body["dimensions"] = self._dimension
        while True:
            address, *others = self._addresses
            try:
                request = partial(_answer, address=address, body=body)
                content, tokens = await self._service.ask(request, asks_otherwise=True)
            except service.RefusedError as refused:
                if refused.parameter != PATH or not others:
                    raise
                # From now on: an Inference Endpoint that is no TEI answers at its own address alone.
                self._addresses = others
            else:
                embedded("huggingface", self._model, tokens)
                return self._rows(content, len(texts))

    def _rows(self, content: bytes, count: int) -> list[list[float]]:
        try:
            rows = json.loads(content)
        except ValueError:
            rows = None
        if not isinstance(rows, list) or len(rows) != count or not all(isinstance(row, list) and row for row in rows):
            raise self._service.broken("the answer is not one vector for each text")
        if any(isinstance(row[0], list) for row in rows):
            raise self._service.broken(
                "the service gives a vector for each token, not for each text: serve the model by "
                "text-embeddings-inference, or run it from a folder (`path`)"
            )
        return rows


class _StatusError(Exception):
    def __init__(self, response: httpx2.Response) -> None:
        super().__init__(response.status_code)
        self.status = response.status_code
        self.path = response.request.url.path
        try:
            body = response.json()
        except ValueError:
            body = None
        body = body if isinstance(body, dict) else {}
        error = body.get("error")
        self.said = (error if isinstance(error, str) else json.dumps(error) if error else response.text).strip()
        # The router tells the seconds that a model takes to load in the body.
        loading = body.get("estimated_time")
        self.after = service.retry_after(response.headers)
        if self.after is None and isinstance(loading, int | float):
            self.after = float(max(0.0, loading))


class _Service(service.HttpService):
    """Sends requests over HTTP. A RefusedError names PATH or SIZE."""

    def _translated(self, sdk: Any, error: Exception) -> Exception | None:
        if isinstance(error, _StatusError):
            said = self._clean(error.said)
            problem = self.broken(f"status {error.status}" + (f": {said}" if said else ""))
            if error.status in (404, 405):
                return service.RefusedError(
                    self.broken(f"nothing at {error.path} (status {error.status}): {said}"), PATH, said
                )
            if error.status == 413:
                return service.RefusedError(problem, SIZE, said)
            code = _OWN_STATUS.get(error.status, service.code_of(error.status))
            return self._of_status(error.status, said, code=code, after=error.after)
        return super()._translated(sdk, error)


async def _answer(client: httpx2.AsyncClient, address: str, body: Mapping[str, Any]) -> tuple[bytes, int]:
    """Return the response body, and the token count that text-embeddings-inference reports."""
    response = await client.post(address, json=dict(body))
    if not response.is_success:
        raise _StatusError(response)
    tokens = response.headers.get("x-compute-tokens", "")
    return response.content, int(tokens) if tokens.isdecimal() else 0


def _addresses(model: str | None, base_url: str | None) -> list[str]:
    """Return the URLs to try in order: the router's for the model, or your own, with TEI's path first."""
    if base_url is None:
        return [f"{ROUTER}/hf-inference/models/{quote(model or '', safe='/')}/pipeline/feature-extraction"]
    address = base_url.rstrip("/")
    return [address] if address.endswith(_WHOLE_ADDRESS) else [f"{address}/embed", address]


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


class HuggingFaceEmbedder(Embedder):
    """A model of the Hugging Face Hub; vectors of length 1.

    With `path` the ONNX model in that folder runs locally, with `base_url` a server answers (text-embeddings-inference,
    an Inference Endpoint), otherwise the hosted router. Construction sends and loads nothing. ConfigError without a key
    for the router, for an unknown dimension, and for a folder that cannot be run. Failures are EmbeddingError with the
    codes of the `openai` embedder.
    """

    name: ClassVar[str] = "huggingface"

    class Settings(service.ServiceSettings):
        """The model, where it runs, and the length of its vectors."""

        model: str | None = Field(default=None, min_length=1)
        """The model's name on the Hub; None: all-MiniLM-L6-v2 at the router, else the server's or the folder's."""
        dimensions: int | None = Field(default=None, ge=1, le=65_536)
        """Length of the vectors; None: the model's own, where it is known."""
        api_key: SecretStr | None = Field(
            default_factory=partial(service.secret_from, "HF_TOKEN", "HUGGINGFACE_API_KEY", "HUGGING_FACE_HUB_TOKEN")
        )
        """API key, sent to any address; falls back to HF_TOKEN, HUGGINGFACE_API_KEY or HUGGING_FACE_HUB_TOKEN, which
        are sent only to Hugging Face's own addresses."""
        base_url: str | None = None
        """Address of your own server."""
        path: Path | None = None
        """A folder with model.onnx or onnx/model.onnx, tokenizer.json and config.json."""
        batch_size: int = Field(default=32, ge=1, le=2048)
        """Maximum texts in one request (text-embeddings-inference takes 32 by default); fewer once a server says so."""
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
        self._encoder: onnx.OnnxEncoder | None = None
        self._folder: ModelFolder | None = None
        self._endpoint: Endpoint | None = None
        if settings.path:
            self._folder = read_folder(settings.path.expanduser())
            own, named = self._folder.dimension, str(settings.path)
            self._dimension = known_dimension(own, settings.dimensions, MODELS, named, exactly=True)
        else:
            model = settings.model or (None if settings.base_url else DEFAULT)
            known = MODELS.get(model or "")
            self._dimension = known_dimension(known, settings.dimensions, MODELS, model)
            self._endpoint = Endpoint(
                settings,
                model=model,
                base_url=settings.base_url,
                key=_key(settings),
                dimension=self._dimension,
                batch_size=settings.batch_size,
                asks_for_length=known is not None and known != self._dimension,
            )
            self._named = model or urlsplit(settings.base_url or "").netloc.rpartition("@")[2]

    @property
    def dimension(self) -> int:
        return self._dimension

    @property
    def label(self) -> str:
        named = self._folder.digest() if self._folder else self._named
        return f"{self.name}-{named}-{self._dimension}"

    async def embed_batch(self, texts: Sequence[str]) -> NDArray[np.float32]:
        readable = readable_texts(texts, HINT)
        if not readable:
            return np.empty((0, self._dimension), dtype=np.float32)
        if self._endpoint:
            return await self._endpoint.embed(readable)
        return await run_blocking(self._encode, readable)

    def unavailable(self) -> str | None:
        drivers = ("onnxruntime", "tokenizers") if self._folder else ("httpx2",)
        missing = [driver for driver in drivers if find_spec(driver) is None]
        return f"{self.name} needs {' and '.join(missing)}: {extra_line(self.name)}" if missing else None

    async def close(self) -> None:
        with self._lock:
            self._encoder = None
        if self._endpoint:
            await self._endpoint.close()

    def _encode(self, texts: list[str]) -> NDArray[np.float32]:
        return self._load().encode(texts)

    def _load(self) -> onnx.OnnxEncoder:
        with self._lock:
            if self._encoder is None:
                assert self._folder is not None, "only a folder is loaded"
                try:
                    self._encoder = load_encoder(self._folder, self._settings.threads)
                except ImportError as error:
                    raise missing_driver(self.name, error) from error
            return self._encoder


def _key(settings: HuggingFaceEmbedder.Settings) -> str | None:
    """Return the key to send, or None: one from the environment goes only to the vendor's own address."""
    if settings.base_url is None:
        advice = ", or set base_url or path to run the model yourself"
        return service.key_or_fail(
            settings.api_key, needed=True, section="embedder", variable="HF_TOKEN", advice=advice
        )
    given = "api_key" in settings.model_fields_set or is_hosted(settings.base_url)
    return settings.api_key.get_secret_value() if settings.api_key and given else None
