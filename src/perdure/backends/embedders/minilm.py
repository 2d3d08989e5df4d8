"""The embedded embedder: all-MiniLM-L6-v2 on ONNX Runtime, without PyTorch, server or key."""

from __future__ import annotations

import importlib.util
import logging
import os
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakValueDictionary

from pydantic import BaseModel, ConfigDict, Field

from perdure.backends.blocking import run_blocking
from perdure.backends.embedders._minilm_graph import (
    GRAPH_VERSION,
    HIDDEN,
    MASKED,
    PACKED,
    Precision,
    build_graph,
    build_judge,
    read_weights,
)
from perdure.backends.embedders._minilm_judge import Embeddings, Judge, judge_weights, trained_digest
from perdure.backends.embedders._wordpiece import LONG_TEXT, read_tokenizer
from perdure.backends.embedders.base import HINT, Embedder
from perdure.backends.extras import extra_line, weights_line
from perdure.backends.http.resumed_download import Progress, RemoteFile, check_address, fetch_files, user_cache_dir
from perdure.backends.shared.calibration import Calibration
from perdure.backends.shared.micro_batches import RUN_TOKENS, MicroBatcher, usable_cores
from perdure.backends.shared.onnx import (
    BATCH_TOKENS,
    RUN_COST,
    OnnxEncoder,
    Session,
    batches,
    fingerprint,
    mean_of_tokens,
    packs,
    rows_of,
    start_session,
)
from perdure.domain.errors import ConfigError, DependencyError, EmbeddingError
from perdure.domain.text.readable import readable_texts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FOLDER = "all-MiniLM-L6-v2"  # name of the folder, inside the cache folder, that a download fills
WEIGHTS_PACKAGE = "perdure_minilm"
WEIGHTS = ("model.safetensors", "onnx/model.onnx", "model.onnx")
TOKENIZER = "tokenizer.json"
PUBLISHED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of model.safetensors as the authors published it."""
HALVED_SHA256 = "9c0bf732145c2a248a35b8d17263e9adefce68043737804b972f46d46b219189"
"""Of model.safetensors in the package of weights: the same numbers in 16 bits, whose vectors have a cosine of at least
.999999 to the published ones (packages/minilm)."""


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The two files of an encoder; `weights` is a safetensors or an ONNX file."""

    weights: Path
    tokenizer: Path

    @property
    def is_graph(self) -> bool:
        return self.weights.suffix == ".onnx"


def find_model(path: Path | None, cache_dir: Path | None) -> ModelFiles | None:
    """Find the files in `path` if given, else in the installed weights package, else among the downloads."""
    if path is not None:
        return _in_folder(path.expanduser())
    for folder in (_package_folder(), cache_dir / FOLDER if cache_dir else None):
        found = _in_folder(folder) if folder else None
        if found:
            return found
    return None


def _in_folder(folder: Path) -> ModelFiles | None:
    tokenizer = folder / TOKENIZER
    if not tokenizer.is_file():
        return None
    for name in WEIGHTS:
        if (folder / name).is_file():
            return ModelFiles(folder / name, tokenizer)
    return None


def _package_folder() -> Path | None:
    """Return the package's folder; finding a top-level package does not import it."""
    try:
        spec = importlib.util.find_spec(WEIGHTS_PACKAGE)
    except ValueError:  # a module of that name without a spec
        return None
    return Path(spec.origin).parent if spec and spec.origin else None


# Fetches all-MiniLM-L6-v2 from the Hugging Face hub: the only code of `minilm` that uses the network.

__all__ = ["FILES", "HUB", "Progress", "RemoteFile", "download"]
HUB = "https://huggingface.co"
REPOSITORY = "sentence-transformers/all-MiniLM-L6-v2"
REVISION = "1110a243fdf4706b3f48f1d95db1a4f5529b4d41"
FILES = (
    RemoteFile("config.json", 612, "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"),
    RemoteFile("tokenizer.json", 466_247, "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
    RemoteFile("model.safetensors", 90_868_376, PUBLISHED_SHA256),
)


def download(
    target: Path,
    progress: Progress | None = None,
    *,
    base_url: str = HUB,
    timeout: float = 30.0,
    files: tuple[RemoteFile, ...] = FILES,
) -> Path:
    """Download the model into the folder `target` and return it; complete files are not downloaded again.

    An interrupted download resumes, and a file gets its name once size and SHA-256 are right. `timeout` is in seconds
    without an answer. EmbeddingError without network or with wrong content, ConfigError for a bad `base_url` or folder.
    """
    hub = f"{check_address(base_url)}/{REPOSITORY}/resolve/{REVISION}"
    advice = (
        f". Without a network, install the weights from a package (`{weights_line()}`) or set embedder.config.path to "
        "a folder that holds them"
    )
    addressed = [(f"{hub}/{file.name}", file) for file in files]
    failure = partial(EmbeddingError, code="download_failed")
    return fetch_files(target, addressed, progress, timeout, failure=failure, advice=advice)


# The loaded encoder: tokenizer and ONNX session, texts in, vectors of length 1 out. Synchronous and thread-safe.

__all__ = ["BATCH_TOKENS", "MAX_TOKENS", "RUN_COST", "Encoder", "batches", "graph_file", "shared_encoder"]
MAX_TOKENS = 256  # max_seq_length of the published model: what comes later in a text is not read
ROW_TOKENS = 32  # most tokens in a row of several texts: each token is compared with all others of its row
SLOWER = ("SkipLayerNormFusion",)
"""Optimizers of ONNX Runtime that make our graph a tenth slower (1.32, on a CPU: the fused operator is slow there)."""
_log = logging.getLogger("perdure.embedders")
_encoders: WeakValueDictionary[tuple[object, ...], Encoder] = WeakValueDictionary()
_judges: WeakValueDictionary[tuple[object, ...], Judge] = WeakValueDictionary()
_loading = threading.Lock()


class Encoder(OnnxEncoder):
    """A loaded all-MiniLM-L6-v2: vectors of 384 numbers; `batcher` lets callers share its runs.

    A packed graph, which we build for fp32, reads texts of any lengths in one run without padding.
    """

    known_inputs: ClassVar[frozenset[str]] = OnnxEncoder.known_inputs | frozenset(PACKED)

    def __init__(self, session: Session, tokenizer_file: Path, threads: int = 1, *, merges: bool = True) -> None:
        tokenize = _load_tokenizer(tokenizer_file)
        self._packed = {node.name for node in session.get_inputs()} == set(PACKED)
        output = _choose_output(session)
        super().__init__("minilm", session, tokenize, output=output, dimension=HIDDEN, pool=mean_of_tokens)
        self.batcher = MicroBatcher(
            tokenize,
            partial(_cut, packed=self._packed, most=RUN_TOKENS),  # not a method: a model goes with its last user
            dimension=HIDDEN,
            run_cost=None if self._packed else RUN_COST,
            runners=max(1, usable_cores() // threads),
            merges=merges,
        )

    def cut(self, lengths: Sequence[int], most: int) -> list[list[int]]:
        """The positions of texts that are read together: a list for each run."""
        return _cut(lengths, packed=self._packed, most=most)

    def feed(self, tokens: Sequence[Sequence[int]]) -> tuple[dict[str, NDArray[Any]], NDArray[np.int64]]:
        """The inputs of the graph for one batch of token ids, and their mask."""
        import numpy as np

        if not self._packed:
            return super().feed(tokens)
        lengths = [len(ids) for ids in tokens]
        rows = rows_of(lengths, ROW_TOKENS)
        shape = len(rows), max(sum(lengths[place] for place in row) for row in rows)
        ids, positions, text = np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.full(shape, -1)
        for number, row in enumerate(rows):
            start = 0
            for place in row:
                within = slice(start, start + lengths[place])
                ids[number, within] = tokens[place]
                positions[number, within] = np.arange(lengths[place])
                text[number, within] = place
                start = within.stop
        known = {
            "input_ids": ids,
            "positions": positions,
            "apart": np.where(text[:, None, :, None] == text[:, None, None, :], np.float32(0), np.float32(MASKED)),
            "means": (np.arange(len(lengths))[:, None] == text.ravel()) / np.array(lengths, np.float32)[:, None],
        }
        return known, (text >= 0).astype(np.int64)

    async def embed_batch(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return vectors of shape (len(texts), 384), in order."""
        return await self.batcher.embed_batch(texts, self.run)


def _cut(lengths: Sequence[int], *, packed: bool, most: int) -> list[list[int]]:
    return packs(lengths, most) if packed else list(batches(lengths, most))


def shared_encoder(files: ModelFiles, cache_dir: Path | None, threads: int, precision: Precision = "fp32") -> Encoder:
    """Return the encoder of these files, loaded once per process while in use: it takes about 200 MB."""
    key = (files, files.weights.stat().st_mtime_ns, threads, precision)
    with _loading:
        encoder = _encoders.get(key)
        if encoder is None or encoder.batcher.stale:
            session = _open_session(files, cache_dir, threads, precision)
            # A graph of one's own may be quantized so that a vector depends on the texts it is read with.
            encoder = Encoder(session, files.tokenizer, threads, merges=not files.is_graph)
            _encoders[key] = encoder
        return encoder


def shared_judge(files: ModelFiles, cache_dir: Path | None, threads: int) -> Judge:
    """Return the judge beside these weights, loaded once per process while in use: it takes about 60 MB."""
    key = ("judge", files, files.weights.stat().st_mtime_ns, threads)
    with _loading:
        judge = _judges.get(key)
        if judge is None:
            digest = f"{fingerprint(files.weights, cache_dir)[:16]}-{trained_digest()[:8]}"
            cached = cache_dir / f"{FOLDER}-judge-{digest}-v{GRAPH_VERSION}.onnx" if cache_dir else None
            session = _start(cached, lambda: build_judge(judge_weights(read_weights(files.weights))), threads)
            judge = _judges[key] = Judge(session, _load_tokenizer(files.tokenizer), Embeddings.read(files.weights))
        return judge


def _after_fork() -> None:
    """Make a new lock in a forked child, because a thread of the parent may have held the old one."""
    global _loading  # noqa: PLW0603 - there is one lock for a process, and this is a new process
    _loading = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def graph_file(files: ModelFiles, cache_dir: Path, precision: Precision = "fp32") -> Path:
    kind = "" if precision == "fp32" else f"-{precision}"
    return cache_dir / f"{FOLDER}-{fingerprint(files.weights, cache_dir)[:16]}{kind}-v{GRAPH_VERSION}.onnx"


def _open_session(files: ModelFiles, cache_dir: Path | None, threads: int, precision: Precision = "fp32") -> Session:
    if files.is_graph:
        return start_session("minilm", str(files.weights), threads)
    cached = graph_file(files, cache_dir, precision) if cache_dir else None
    # In int8 the last bit of a sum may decide how a state is rounded: the company in a row would show in the vector.
    packed = precision == "fp32"
    return _start(cached, lambda: build_graph(read_weights(files.weights), precision, packed=packed), threads)


def _start(cached: Path | None, build: Callable[[], bytes], threads: int) -> Session:
    """Start a session of the cached graph, or of a newly built one, which is cached."""
    if cached and cached.is_file():
        try:
            return start_session("minilm", str(cached), threads, without=SLOWER)
        except EmbeddingError as error:
            _log.warning("the cached graph %s is damaged and is built again: %s", cached, error)
    graph = build()
    if cached:
        _write_whole(cached, graph)
    return start_session("minilm", graph, threads, without=SLOWER)


def _write_whole(file: Path, content: bytes) -> None:
    """Write a file atomically; an unwritable folder is only logged."""
    temporary: str | None = None
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).replace(file)
    except OSError as error:
        _log.warning("the graph of minilm cannot be cached and will be built again next time: %s", error)
        if temporary:
            Path(temporary).unlink(missing_ok=True)


def _choose_output(session: Session) -> str:
    """Return the graph's sentence vector if it has one, else the token states; EmbeddingError unless 384 wide."""
    outputs = {node.name: node.shape for node in session.get_outputs()}
    for name in ("embedding", "sentence_embedding", "last_hidden_state", "token_embeddings"):
        if name in outputs and outputs[name][-1] == HIDDEN:
            return name
    raise EmbeddingError(f"minilm: the graph has no output of {HIDDEN} dimensions that is known, only {outputs}")


def _load_tokenizer(file: Path) -> Callable[[str], list[int]]:
    """Return a function from text to at most 256 token ids, including [CLS] and [SEP].

    The published file's is our own; one of another kind, beside weights of one's own, needs the driver.
    """
    if own := read_tokenizer(file, MAX_TOKENS):
        return own
    try:
        from tokenizers import Tokenizer  # heavy driver: on first use only
    except ImportError as error:
        raise DependencyError(f"minilm needs tokenizers to read {file}: {extra_line('huggingface')}") from error
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # the driver raises plain Exception
        raise EmbeddingError(f"minilm: {file} is no readable tokenizer: {error}") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()

    # One text at a time: the driver's own batch call starts threads, and warns when the process forks later.
    def tokenize(text: str) -> list[int]:
        ids: list[int] = tokenizer.encode(_beginning(text, tokenizer)).ids
        return ids if len(ids) <= MAX_TOKENS else [*ids[: MAX_TOKENS - 1], ids[-1]]

    return tokenize


def _beginning(text: str, tokenizer: Any) -> str:
    """Return a beginning of the text that surely yields the same first 256 tokens: a cut only changes the last word."""
    size = LONG_TEXT
    while len(text) > size:
        words = tokenizer.encode(text[:size], add_special_tokens=False).word_ids
        if len(words) >= MAX_TOKENS and words[MAX_TOKENS] != words[-1]:
            return text[:size]
        size *= 4
    return text


class MiniLMEmbedder(Embedder):
    """sentence-transformers/all-MiniLM-L6-v2: 384 dimensions, the first 256 tokens of a text, float32, length 1.

    Concurrent requests share a run of the model, single texts before lists; a lone request never waits. The first
    embedding loads the model: DependencyError if something is missing (see `unavailable`), EmbeddingError if the model
    cannot be read or run.
    """

    name: ClassVar[str] = "minilm"
    local = True

    class Settings(BaseModel):
        """The model's location and number of threads."""

        # Descriptions, and no docstrings of fields: for those pydantic parses this file whenever it is imported.
        model_config = ConfigDict(extra="forbid", frozen=True)

        path: Path | None = Field(
            default=None,
            description="A folder with tokenizer.json and model.safetensors, onnx/model.onnx or model.onnx; None: the "
            "installed weights package, else the downloaded model.",
        )
        threads: int = Field(
            default=1,
            ge=1,
            le=256,
            description="Threads of one embedding call. More than one only pays on a machine that is otherwise idle.",
        )
        cache_dir: Path | None = Field(
            default=None, description="Folder of the built graph and of the download; None: the user's cache folder."
        )
        precision: Precision = Field(
            default="fp32",
            description="`int8` computes with 8-bit numbers: a question takes six tenths of the "
            "processor time, the graph a quarter of the space. Its vectors differ: a "
            "collection has one kind, and `perdure reindex` changes it.",
        )

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._cache_dir = settings.cache_dir.expanduser() if settings.cache_dir else user_cache_dir()
        self._encoder: Encoder | None = None
        self._judge: Judge | None = None
        if settings.path and (files := self._find()):
            self._check_precision(files)

    @property
    def dimension(self) -> int:
        return HIDDEN

    @property
    def label(self) -> str:
        """Return the model's name and precision, and for your own weights the beginning of their SHA-256."""
        files = self._find() if self._settings.path else None
        digest = fingerprint(files.weights, self._cache_dir) if files else PUBLISHED_SHA256
        published = f"{FOLDER}-{self._settings.precision}"
        return published if digest in (PUBLISHED_SHA256, HALVED_SHA256) else f"{published}-{digest[:12]}"

    def score(self, similarity: float) -> float:
        """Return the score calibrated on labelled pairs (benchmarks/calibration); else max(0, cosine)."""
        return _calibration(self._settings.precision)(similarity) if self.english_only else super().score(similarity)

    @property
    def english_only(self) -> bool:
        """Whether these are the published weights; nobody knows which languages your own ones read."""
        return self.label == f"{FOLDER}-{self._settings.precision}"

    async def embed_batch(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return vectors of shape (len(texts), 384) and length 1; a single text is processed before waiting lists."""
        import numpy as np

        readable = readable_texts(texts, HINT)
        if not readable:
            return np.empty((0, HIDDEN), dtype=np.float32)
        encoder = self._encoder
        if encoder is None or encoder.batcher.stale:
            encoder = await run_blocking(self._load)
        return await encoder.embed_batch(readable)

    def unavailable(self) -> str | None:
        if importlib.util.find_spec("onnxruntime") is None:
            return f"minilm needs onnxruntime: {extra_line(self.name)}"
        return None if self._find() else self._no_weights()

    @staticmethod
    def download(
        target: Path | None = None,
        progress: Progress | None = None,
        *,
        cache_dir: Path | None = None,
        base_url: str = HUB,
        timeout: float = 30.0,
    ) -> Path:
        """Download the model into `target`, by default the folder where minilm looks for it, and return the folder.

        `cache_dir` is the setting of that name. Blocks, and calls `progress(file, bytes_done, bytes_total)`; nothing
        else uses the network. EmbeddingError (code `download_failed`) without network or with wrong content.
        """
        if target is None:
            cache_dir = cache_dir or user_cache_dir()
            if cache_dir is None:
                raise ConfigError("this user has no home folder: name the folder to download into", field="target")
            target = cache_dir / FOLDER
        return download(target, progress, base_url=base_url, timeout=timeout)

    def judge(self) -> Judge | None:
        """Return the judge that reads with these weights; None for a graph of one's own, or other weights."""
        if self._judge is None and self.unavailable() is None:
            files = self._find()
            if files is not None and not files.is_graph:
                self._judge = shared_judge(files, self._cache_dir, self._settings.threads)
        return self._judge

    async def close(self) -> None:
        self._encoder = self._judge = None

    def _load(self) -> Encoder:
        encoder = self._encoder
        if encoder is None or encoder.batcher.stale:
            reason = self.unavailable()
            files = self._find()
            if reason or files is None:
                raise DependencyError(reason or self._no_weights())
            self._check_precision(files)
            settings = self._settings
            encoder = self._encoder = shared_encoder(files, self._cache_dir, settings.threads, settings.precision)
        return encoder

    def _check_precision(self, files: ModelFiles) -> None:
        """Raise ConfigError if int8 is requested for an ONNX graph, which is run as it is."""
        if files.is_graph and self._settings.precision != "fp32":
            raise ConfigError(
                f"minilm makes int8 of model.safetensors only, and {files.weights} is a graph, which is run as it is: "
                "leave embedder.config.precision out, or put model.safetensors beside the tokenizer",
                field="embedder.config.precision",
                value=self._settings.precision,
            )

    def _find(self) -> ModelFiles | None:
        return find_model(self._settings.path, self._cache_dir)

    def _no_weights(self) -> str:
        if self._settings.path:
            return f"minilm finds no {TOKENIZER} with {' or '.join(WEIGHTS)} in {self._settings.path}"
        return f"minilm finds no weights of all-MiniLM-L6-v2: run `perdure init --download`, or `{weights_line()}`"


CALIBRATIONS: dict[Precision, str] = {"fp32": "_minilm_calibration.json", "int8": "_minilm_int8_calibration.json"}
"""The data files that benchmarks/calibration/fit.py writes."""


@cache
def _calibration(precision: Precision) -> Calibration:
    return Calibration.read(__package__, CALIBRATIONS[precision])
