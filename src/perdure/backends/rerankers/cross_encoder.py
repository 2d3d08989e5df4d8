"""A cross-encoder that runs locally on ONNX Runtime, without PyTorch, server or key."""

from __future__ import annotations

import importlib.util
import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from perdure.backends.blocking import run_blocking
from perdure.backends.extras import extra_line
from perdure.backends.http.resumed_download import (
    DownloadError,
    Progress,
    RemoteFile,
    check_address,
    fetch_files,
    fetch_text,
    user_cache_dir,
)
from perdure.backends.rerankers._hosted import readable_query
from perdure.backends.rerankers.base import Reranker
from perdure.backends.shared.onnx import Session, batches, start_session
from perdure.domain.errors import ConfigError, DependencyError, RerankerError
from perdure.domain.text.readable import readable_texts

GRAPHS = ("onnx/model.onnx", "model.onnx", "onnx/model_quantized.onnx")
"""Where Hugging Face's repositories keep the ONNX graph, the best first."""
TOKENIZER = "tokenizer.json"
CONFIG = "config.json"
NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)?$"
"""A repository of the hub, with or without an owner; no part of it can lead out of a folder."""
_SHIFTED = {"roberta", "xlm-roberta", "camembert", "mpnet"}
"""Models whose positions begin behind the padding's number, so that they read that many fewer tokens."""


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The two files of a cross-encoder."""

    graph: Path
    tokenizer: Path


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The content of config.json; None for missing values."""

    padding: int | None = None  # the number of the padding token
    most_tokens: int | None = None  # the longest pair, in tokens, for which the model has positions


def find_model(folder: Path) -> ModelFiles | None:
    """Return the first graph of GRAPHS in the folder, with the tokenizer; None if either is missing."""
    graph = next((folder / name for name in GRAPHS if (folder / name).is_file()), None)
    tokenizer = folder / TOKENIZER
    return ModelFiles(graph, tokenizer) if graph and tokenizer.is_file() else None


def model_config(files: ModelFiles) -> ModelConfig:
    """Return the config.json beside the tokenizer; empty if unreadable, because the tokenizer knows enough."""
    try:
        config = json.loads((files.tokenizer.parent / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ModelConfig()
    if not isinstance(config, dict):
        return ModelConfig()
    padding, positions = _count(config.get("pad_token_id")), _count(config.get("max_position_embeddings"))
    if positions and config.get("model_type") in _SHIFTED:
        positions -= (padding or 0) + 1
    return ModelConfig(padding, positions or None)


def downloaded_folder(model: str, cache_dir: Path) -> Path:
    """Return a model's download folder, named in full so that models of different owners never collide."""
    return cache_dir / "rerankers" / model


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None


# A loaded cross-encoder: pairs of texts in, logits out, in few runs of one length. Synchronous and thread-safe.

CHARACTERS_PER_TOKEN = 32
"""Of a text so many characters for each token that the model reads are tokenized, so that a megabyte costs no second. A
token of prose has four or five: what is cut would hardly ever be read."""

RUN_TOKENS = 512
"""Tokens of one run, padding included: as many as the longest pair has, so that no run takes more memory. From 256 to
1,024 the time is the same (50 and 100 pairs of 14 to 70 tokens, MiniLM's six layers, one thread)."""

RUN_COST = 8
"""What a run costs beside its tokens, in tokens: more padding than this is dearer than another run. Measured as above,
pairs sorted by length and read so take 0.75 to 0.8 of the time that they take in runs of 32 (with 32 tokens for the
cost 0.77 to 0.85), and 0.43 to 0.57 of the time that runs of 32 take in the order of the texts."""


_INPUTS = {"input_ids", "attention_mask", "token_type_ids"}


class Pair(NamedTuple):
    """A query and a text for the model: token ids, and for each which of the two it belongs to."""

    ids: Sequence[int]
    types: Sequence[int]


Tokenize = Callable[[str, str], Pair]


class CrossEncoder:
    """One loaded model; any number of threads may call `score` at once.

    RerankerError for a graph with unknown inputs, or with other outputs than one or two logits for each pair.
    """

    def __init__(self, session: Session, tokenize: Tokenize, *, padding: int, batch_size: int) -> None:
        self._session = session
        self._tokenize = tokenize
        self._padding = padding
        self._batch_size = batch_size
        self._inputs = {node.name: np.int32 if "int32" in node.type else np.int64 for node in session.get_inputs()}
        if strange := set(self._inputs) - _INPUTS:
            raise RerankerError(f"cross_encoder: the graph asks for {', '.join(sorted(strange))}, which is not known")
        if "input_ids" not in self._inputs:
            raise RerankerError("cross_encoder: the graph asks for no input_ids, so it reads no text")
        self._output = _output(session)

    def score(self, query: str, texts: Sequence[str], given_up: Callable[[], bool]) -> list[float]:
        """Return the logit of each text, in order; those not computed when `given_up` returns true are 0."""
        logits = np.zeros(len(texts))
        pairs = [self._tokenize(query, text) for text in texts]
        for batch in batches([len(pair.ids) for pair in pairs], RUN_TOKENS, RUN_COST, self._batch_size):
            if given_up():
                break
            logits[batch] = self.run([pairs[position] for position in batch])
        return [float(logit) for logit in logits]

    def run(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Return the logits of pairs, of shape (len(pairs),), in one run."""
        shape = len(pairs), max(len(pair.ids) for pair in pairs)
        ids = np.full(shape, self._padding, dtype=np.int64)
        mask, types = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        for row, pair in enumerate(pairs):
            ids[row, : len(pair.ids)] = pair.ids
            types[row, : len(pair.ids)] = pair.types
            mask[row, : len(pair.ids)] = 1
        known = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
        feed = {name: known[name].astype(kind, copy=False) for name, kind in self._inputs.items()}
        try:
            result = np.asarray(self._session.run([self._output], feed)[0], dtype=np.float64)
        except Exception as error:  # the driver's exceptions have no common base
            raise RerankerError(f"cross_encoder: the model could not be run: {error}") from error
        if result.shape not in ((len(pairs), 1), (len(pairs), 2)):
            raise RerankerError(
                f"cross_encoder: the graph gives {result.shape} for {len(pairs)} pairs, not one logit each"
            )
        logits: NDArray[np.float64] = result[:, -1]  # of two, the second stands for "relevant"
        if not np.isfinite(logits).all():
            raise RerankerError("cross_encoder: the graph gives a logit that is no number")
        return logits


def load_model(files: ModelFiles, *, max_length: int, batch_size: int, threads: int) -> CrossEncoder:
    """Load the model; RerankerError if a file is unreadable or the graph is not a cross-encoder's.

    Pairs are cut to `max_length` tokens, the longer text first; to fewer if the model has fewer positions.
    """
    from tokenizers import Tokenizer  # heavy driver: on first use only

    try:
        tokenizer = Tokenizer.from_file(str(files.tokenizer))
    except Exception as error:  # the driver raises plain Exception
        raise RerankerError(f"cross_encoder: {files.tokenizer} is no readable tokenizer: {error}") from error
    config = model_config(files)
    padding = config.padding if config.padding is not None else (tokenizer.padding or {}).get("pad_id", 0)
    most = min(max_length, config.most_tokens or max_length)
    tokenizer.no_padding()
    tokenizer.enable_truncation(most, strategy="longest_first")
    session = start_session("cross_encoder", str(files.graph), threads, failure=RerankerError, named=str(files.graph))
    return CrossEncoder(session, _tokenize_with(tokenizer, most, padding), padding=padding, batch_size=batch_size)


def _tokenize_with(tokenizer: Any, most_tokens: int, padding: int) -> Tokenize:
    most = most_tokens * CHARACTERS_PER_TOKEN

    # One pair at a time: the driver's own batch call starts threads, and warns when the process forks later.
    def tokenize(query: str, text: str) -> Pair:
        read = tokenizer.encode(query[:most], text[:most])
        # A tokenizer that adds no special tokens makes none of two empty texts, and a run needs one.
        return Pair(read.ids or [padding], read.type_ids or [0])

    return tokenize


def _output(session: Session) -> str:
    """Return the output named `logits`, else one with one or two numbers for each pair, else one of unknown size."""
    shapes: dict[str, list[Any]] = {node.name: node.shape for node in session.get_outputs()}
    fitting = [name for name, shape in shapes.items() if len(shape) == 2 and shape[1] in (1, 2)]
    unsaid = [name for name, shape in shapes.items() if len(shape) == 2 and not isinstance(shape[1], int)]
    found = sorted([*fitting, *unsaid], key=lambda name: name != "logits")  # stable: the rest stays as it is
    if not found:
        raise RerankerError(f"cross_encoder: the graph has no output of one logit or two for each pair, only {shapes}")
    return found[0]


# Fetches a cross-encoder from the Hugging Face hub: the only code of `cross_encoder` that uses the network.

__all__ = ["HUB", "Progress", "download"]
HUB = "https://huggingface.co"
ADVICE = ". Or set reranker.config.path to a folder that holds the model"


class _Large(BaseModel):
    sha256: str


class _Sibling(BaseModel):
    name: str = Field(alias="rfilename")
    size: int = Field(ge=0)
    blob: str = Field(alias="blobId")
    lfs: _Large | None = None


class _Repository(BaseModel):
    commit: str = Field(alias="sha", pattern="^[0-9a-f]{40}$")
    siblings: list[_Sibling]


def download(
    model: str, target: Path, progress: Progress | None = None, *, base_url: str = HUB, timeout: float = 30.0
) -> Path:
    """Download the model of that name into the folder `target` and return it; complete files are not downloaded again.

    The hub is asked once for the repository's commit, and the size and digest of every file. An interrupted download
    resumes, and a file gets its name once size and digest are right. `timeout` is in seconds without an answer.
    RerankerError (code `download_failed`) without network, for a repository without a cross-encoder and for wrong
    content; ConfigError for a bad `model` name, `base_url` or folder.
    """
    if not re.fullmatch(NAME, model):
        raise ConfigError(f"model must be a name such as owner/name, not {model!r}", field="model", value=model)
    hub = check_address(base_url)
    repository = _listing(f"{hub}/api/models/{quote(model)}/revision/main?blobs=true", model, timeout)
    files = [
        (f"{hub}/{quote(model)}/resolve/{repository.commit}/{file.name}", file) for file in _wanted(repository, model)
    ]
    return fetch_files(target, files, progress, timeout, failure=_failure, advice=ADVICE)


def _wanted(repository: _Repository, model: str) -> Iterator[RemoteFile]:
    """Return the cross-encoder's files, the smallest first, including the separate weights of a graph over 2 GB."""
    found = {sibling.name: sibling for sibling in repository.siblings}
    graph = next((name for name in GRAPHS if name in found), None)
    if graph is None or TOKENIZER not in found:
        raise _failure(f"{model} holds no {TOKENIZER} with {' or '.join(GRAPHS)}")
    for name in (CONFIG, TOKENIZER, f"{graph}_data", graph):
        if sibling := found.get(name):
            digest = sibling.lfs.sha256 if sibling.lfs else sibling.blob
            yield RemoteFile(name, sibling.size, digest, large=sibling.lfs is not None)


def _listing(url: str, model: str, timeout: float) -> _Repository:
    try:
        content = fetch_text(url, timeout)
    except DownloadError as error:
        raise _failure(f"{url} could not be fetched: {error}{ADVICE}") from error
    try:
        return _Repository.model_validate_json(content)
    except ValidationError as error:
        raise _failure(f"what {url} sent does not list the files of {model}") from error


def _failure(what: str) -> RerankerError:
    return RerankerError(what, code="download_failed")


DEFAULT = "Xenova/ms-marco-MiniLM-L-6-v2"  # the default model: ms-marco-MiniLM-L-6-v2 of sentence-transformers, as ONNX


class CrossEncoderReranker(Reranker):
    """A cross-encoder from the Hugging Face hub or a folder; scores are its raw logits.

    The first texts load it; only `download` uses the network. DependencyError if something is missing (see
    `unavailable`), RerankerError if the model cannot be read or run.
    """

    name: ClassVar[str] = "cross_encoder"

    class Settings(BaseModel):
        """The model, its location, and how much of a pair it reads."""

        model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

        model: str = Field(default=DEFAULT, pattern=NAME)
        """The model's name on the hub; its repository must contain tokenizer.json and an ONNX graph."""
        path: Path | None = None
        """A folder with tokenizer.json and onnx/model.onnx, model.onnx or onnx/model_quantized.onnx; None: the
        downloaded model."""
        max_length: int = Field(default=512, ge=16, le=8192)
        """Maximum tokens of a query and a text together; the longer one is cut first."""
        batch_size: int = Field(default=32, ge=1, le=1024)
        """Maximum texts in one run."""
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
        """Return the logit of each text; cancellation stops the work after the current run."""
        asked, readable = readable_query(query), readable_texts(texts)
        if not readable:
            return []
        given_up = threading.Event()
        try:
            return await run_blocking(self._score, asked, readable, given_up)
        finally:
            given_up.set()

    def unavailable(self) -> str | None:
        missing = [each for each in ("onnxruntime", "tokenizers") if importlib.util.find_spec(each) is None]
        if missing:
            return f"cross_encoder needs {' and '.join(missing)}: {extra_line(self.name)}"
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
        """Download the model into `target`, by default the folder where cross_encoder looks for it; return the folder.

        `model` and `cache_dir` are the settings of those names. Blocks, and calls `progress(file, bytes_done,
        bytes_total)`; nothing else uses the network. RerankerError (code `download_failed`) without network or with
        wrong content, ConfigError for a wrong name.
        """
        if target is None:
            cache_dir = cache_dir or user_cache_dir()
            if cache_dir is None:
                raise ConfigError("this user has no home folder: name the folder to download into", field="target")
            target = downloaded_folder(model, cache_dir)
        return download(model, target, progress, base_url=base_url, timeout=timeout)

    async def close(self) -> None:
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
                    files, max_length=settings.max_length, batch_size=settings.batch_size, threads=settings.threads
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
