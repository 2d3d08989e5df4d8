"""The loaded encoder: tokenizer and ONNX session, texts in, vectors of length 1 out. Synchronous and thread-safe."""

from __future__ import annotations

import logging
import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from perdure.backends.embedders._minilm_files import FOLDER, ModelFiles, fingerprint
from perdure.backends.embedders._minilm_graph import GRAPH_VERSION, HIDDEN, build_graph, read_weights
from perdure.backends.embedders._onnx import (
    BATCH_TOKENS,
    RUN_COST,
    OnnxEncoder,
    Session,
    batches,
    mean_of_tokens,
    start_session,
)
from perdure.domain.errors import EmbeddingError

__all__ = ["BATCH_TOKENS", "MAX_TOKENS", "RUN_COST", "Encoder", "batches", "graph_file", "shared_encoder"]

MAX_TOKENS = 256
"""max_seq_length of the published model: what comes later in a text is not read."""

LONG_TEXT = 4096
"""Characters; a longer text is tokenized from its beginning only, as far as 256 tokens reach."""

_log = logging.getLogger("perdure.embedders")
_encoders: WeakValueDictionary[tuple[object, ...], Encoder] = WeakValueDictionary()
_loading = threading.Lock()


class Encoder(OnnxEncoder):
    """One loaded all-MiniLM-L6-v2: vectors of 384 numbers."""

    def __init__(self, session: Session, tokenizer_file: Path) -> None:
        tokenize = _load_tokenizer(tokenizer_file)
        output = _choose_output(session)
        super().__init__("minilm", session, tokenize, output=output, dimension=HIDDEN, pool=mean_of_tokens)


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
        return start_session("minilm", str(files.weights), threads)
    cached = graph_file(files, cache_dir) if cache_dir else None
    if cached and cached.is_file():
        try:
            return start_session("minilm", str(cached), threads)
        except EmbeddingError as error:
            _log.warning("the cached graph %s is damaged and is built again: %s", cached, error)
    graph = build_graph(read_weights(files.weights))
    if cached:
        _write_whole(cached, graph)
    return start_session("minilm", graph, threads)


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


def _choose_output(session: Session) -> str:
    """The sentence vector where the graph has one, else the token states; EmbeddingError if neither is 384 wide."""
    outputs = {node.name: node.shape for node in session.get_outputs()}
    for name in ("embedding", "sentence_embedding", "last_hidden_state", "token_embeddings"):
        if name in outputs and outputs[name][-1] == HIDDEN:
            return name
    raise EmbeddingError(f"minilm: the graph has no output of {HIDDEN} dimensions that is known, only {outputs}")


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
