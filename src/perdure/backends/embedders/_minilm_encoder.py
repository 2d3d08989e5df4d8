"""The loaded encoder: tokenizer and ONNX session, texts in, vectors of length 1 out. Synchronous and thread-safe."""

from __future__ import annotations

import logging
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from perdure.backends.embedders._minilm_files import FOLDER, ModelFiles, fingerprint
from perdure.backends.embedders._minilm_graph import GRAPH_VERSION, HIDDEN, build_graph, read_weights
from perdure.domain.errors import EmbeddingError

MAX_TOKENS = 256
"""max_seq_length of the published model: what comes later in a text is not read."""

BATCH_TOKENS = 256
"""Tokens per run, padding included. From there on a token costs the same or more (benchmarks/encoder.py)."""

RUN_COST = 8
"""What a run costs beside its tokens, in tokens: more padding than this is dearer than another run (measured as above;
a few texts of mixed length are up to 1.9 times as fast as in one run filled to BATCH_TOKENS)."""

LONG_TEXT = 4096
"""Characters; a longer text is tokenized from its beginning only, as far as 256 tokens reach."""

Session = Any
"""An onnxruntime.InferenceSession; the driver has no types."""

_log = logging.getLogger("perdure.embedders")
_encoders: WeakValueDictionary[tuple[object, ...], Encoder] = WeakValueDictionary()
_loading = threading.Lock()


class Encoder:
    """One loaded model; any number of threads may call `encode` at once."""

    def __init__(self, session: Session, tokenizer_file: Path) -> None:
        self._session = session
        self._inputs = {node.name for node in session.get_inputs()}
        self._output = _choose_output(session)
        self._tokenize = _load_tokenizer(tokenizer_file)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of shape (len(texts), 384), in the order of the texts, whatever batches they were read in."""
        vectors = np.empty((len(texts), HIDDEN), dtype=np.float32)
        tokens = [self._tokenize(text) for text in texts]
        for batch in batches([len(ids) for ids in tokens]):
            vectors[batch] = self.run([tokens[row] for row in batch])
        return vectors

    def run(self, tokens: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Vectors of one batch of token ids, in one run of the session."""
        width = max(map(len, tokens))
        ids = np.zeros((len(tokens), width), dtype=np.int64)
        mask = np.zeros((len(tokens), width), dtype=np.int64)
        for row, values in enumerate(tokens):
            ids[row, : len(values)] = values
            mask[row, : len(values)] = 1
        feed = {"input_ids": ids, "attention_mask": mask}
        if "token_type_ids" in self._inputs:  # graphs exported from PyTorch ask for it
            feed["token_type_ids"] = np.zeros_like(ids)
        try:
            result = self._session.run([self._output], feed)[0]
        except Exception as error:  # the driver's exceptions have no common base
            raise EmbeddingError(f"minilm: the model could not be run: {error}") from error
        return _unit(_pool(result, mask))


def batches(lengths: Sequence[int], most: int = BATCH_TOKENS, run_cost: float = RUN_COST) -> Iterator[list[int]]:
    """Positions of texts that are read in one run, by length, shortest first.

    A run holds at most `most` tokens, padding included, or one text; a text that is longer than those before it begins
    a new run where padding them would take more than `run_cost` tokens.
    """
    batch: list[int] = []
    width = 0
    for position in sorted(range(len(lengths)), key=lengths.__getitem__):
        length = lengths[position]
        if batch and ((len(batch) + 1) * length > most or len(batch) * (length - width) > run_cost):
            yield batch
            batch = []
        batch.append(position)
        width = length
    if batch:
        yield batch


def shared_encoder(files: ModelFiles, cache_dir: Path | None, threads: int) -> Encoder:
    """The encoder of these files, loaded once per process while anybody holds it: it takes about 200 MB."""
    key = (files, files.weights.stat().st_mtime_ns, threads)
    with _loading:
        encoder = _encoders.get(key)
        if encoder is None:
            encoder = Encoder(_open_session(files, cache_dir, threads), files.tokenizer)
            _encoders[key] = encoder
        return encoder


def graph_file(files: ModelFiles, cache_dir: Path) -> Path:
    """Where the graph of these weights is cached."""
    return cache_dir / f"{FOLDER}-{fingerprint(files.weights)[:16]}-v{GRAPH_VERSION}.onnx"


def _open_session(files: ModelFiles, cache_dir: Path | None, threads: int) -> Session:
    if files.is_graph:
        return _start_session(str(files.weights), threads)
    cached = graph_file(files, cache_dir) if cache_dir else None
    if cached and cached.is_file():
        try:
            return _start_session(str(cached), threads)
        except EmbeddingError as error:
            _log.warning("the cached graph %s is damaged and is built again: %s", cached, error)
    graph = build_graph(read_weights(files.weights))
    if cached:
        _write_whole(cached, graph)
    return _start_session(graph, threads)


def _write_whole(file: Path, content: bytes) -> None:
    """Write the file so that no other process ever sees a part of it; an unwritable folder is only logged."""
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


def _start_session(model: str | bytes, threads: int) -> Session:
    # From 1.29 on the runtime reports its use to its maker unless told not to, before it is loaded
    # (https://github.com/microsoft/onnxruntime/pull/27379). What runs in a memory is nobody else's business.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime  # heavy driver: on first use only

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Threads that wait by spinning burn three times the processor time of a short text to save a tenth of its delay.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the driver's exceptions have no common base
        raise EmbeddingError(f"minilm: the model could not be loaded: {error}") from error


def _choose_output(session: Session) -> str:
    """The sentence vector where the graph has one, else the token states; EmbeddingError if neither is 384 wide."""
    outputs = {node.name: node.shape for node in session.get_outputs()}
    for name in ("embedding", "sentence_embedding", "last_hidden_state", "token_embeddings"):
        if name in outputs and outputs[name][-1] == HIDDEN:
            return name
    raise EmbeddingError(f"minilm: the graph has no output of {HIDDEN} dimensions that is known, only {outputs}")


def _pool(result: NDArray[np.float32], mask: NDArray[np.int64]) -> NDArray[np.float32]:
    """Token states of shape (b, s, 384) as their mean over the mask; sentence vectors pass as they are."""
    if result.ndim == 2:
        return result
    weights = mask[:, :, None].astype(np.float32)
    return np.asarray((result * weights).sum(axis=1) / weights.sum(axis=1), dtype=np.float32)


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, np.float32(1e-12)), dtype=np.float32)


def _load_tokenizer(file: Path) -> Callable[[str], list[int]]:
    """A function from text to at most 256 token ids, [CLS] and [SEP] included."""
    from tokenizers import Tokenizer  # heavy driver: on first use only

    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # the driver raises plain Exception
        raise EmbeddingError(f"minilm: {file} is no readable tokenizer: {error}") from error
    # The published file asks for exactly 128 tokens each; the model was trained for sentences of up to 256.
    tokenizer.no_padding()
    tokenizer.no_truncation()

    # One text at a time: the driver's own batch call starts threads, and warns when the process forks later.
    def tokenize(text: str) -> list[int]:
        ids: list[int] = tokenizer.encode(_beginning(text, tokenizer)).ids
        return ids if len(ids) <= MAX_TOKENS else [*ids[: MAX_TOKENS - 1], ids[-1]]

    return tokenize


def _beginning(text: str, tokenizer: Any) -> str:
    """The text, or a beginning of it that surely yields the same first 256 tokens: a cut changes the last word only."""
    size = LONG_TEXT
    while len(text) > size:
        words = tokenizer.encode(text[:size], add_special_tokens=False).word_ids
        if len(words) >= MAX_TOKENS and words[MAX_TOKENS] != words[-1]:
            return text[:size]
        size *= 4
    return text
