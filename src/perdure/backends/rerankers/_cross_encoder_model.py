"""A loaded cross-encoder: pairs of texts in, logits out, in few runs of one length. Synchronous and thread-safe."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perdure.backends.rerankers._cross_encoder_files import ModelFiles, model_config
from perdure.domain.errors import RerankerError

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

Session = Any
"""An onnxruntime.InferenceSession; the driver has no types."""

_INPUTS = {"input_ids", "attention_mask", "token_type_ids"}


class Pair(NamedTuple):
    """A query and a text as the model reads them: token numbers, and for each which of the two it belongs to."""

    ids: Sequence[int]
    types: Sequence[int]


Tokenize = Callable[[str, str], Pair]


class CrossEncoder:
    """One loaded model; any number of threads may call `score` at once.

    RerankerError for a graph that asks for what is not known, or gives other than one logit or two for each pair.
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
        """The logit of each text, in the order of the texts; what is missing is 0 once `given_up` says so."""
        logits = np.zeros(len(texts))
        pairs = [self._tokenize(query, text) for text in texts]
        for bucket in buckets([len(pair.ids) for pair in pairs], self._batch_size):
            if given_up():
                break
            logits[bucket] = self.run([pairs[position] for position in bucket])
        return [float(logit) for logit in logits]

    def run(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """The logits of pairs, of shape (len(pairs),), in one run of the session."""
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


def buckets(lengths: Sequence[int], most_pairs: int) -> Iterator[list[int]]:
    """Positions of pairs that are read in one run, by length, shortest first.

    A run holds at most `most_pairs` pairs, and RUN_TOKENS tokens, padding included, or one pair; a pair that is longer
    than those before it begins a new run where padding them would take more than RUN_COST tokens.
    """
    bucket: list[int] = []
    width = 0
    for position in sorted(range(len(lengths)), key=lengths.__getitem__):
        length, count = lengths[position], len(bucket)
        full = count == most_pairs or (count + 1) * length > RUN_TOKENS
        if bucket and (full or count * (length - width) > RUN_COST):
            yield bucket
            bucket = []
        bucket.append(position)
        width = length
    if bucket:
        yield bucket


def load_model(files: ModelFiles, *, max_length: int, batch_size: int, threads: int) -> CrossEncoder:
    """The model, loaded; RerankerError if a file cannot be read or the graph is no cross-encoder's.

    A pair is cut to `max_length` tokens, the longer of the two first; to fewer if the model has positions for fewer.
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
    session = _start_session(files.graph, threads)
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
    """The output named `logits`, else one of one number or two for each pair, else one that does not say how many."""
    shapes: dict[str, list[Any]] = {node.name: node.shape for node in session.get_outputs()}
    fitting = [name for name, shape in shapes.items() if len(shape) == 2 and shape[1] in (1, 2)]
    unsaid = [name for name, shape in shapes.items() if len(shape) == 2 and not isinstance(shape[1], int)]
    found = sorted([*fitting, *unsaid], key=lambda name: name != "logits")  # stable: the rest stays as it is
    if not found:
        raise RerankerError(f"cross_encoder: the graph has no output of one logit or two for each pair, only {shapes}")
    return found[0]


def _start_session(graph: Path, threads: int) -> Session:
    """A session of the graph; RerankerError if it cannot be read."""
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
        return onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the driver's exceptions have no common base
        raise RerankerError(f"cross_encoder: {graph} could not be loaded: {error}") from error
