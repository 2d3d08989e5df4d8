"""ONNX Runtime: sessions, and an encoder (texts in, vectors of length 1 out, in few runs). Thread-safe."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from perdure.domain.errors import EmbeddingError, PerdureError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BATCH_TOKENS = 256
"""Tokens per run, padding included. From there on a token costs the same or more (benchmarks/encoder.py)."""

RUN_COST = 8
"""What a run costs beside its tokens, in tokens: more padding than this is dearer than another run (measured as above;
a few texts of mixed length are up to 1.9 times as fast as in one run filled to BATCH_TOKENS)."""

Session = Any  # an onnxruntime.InferenceSession; the driver has no types
Tokenize = Callable[[str], list[int]]
Pool: TypeAlias = "Callable[[NDArray[np.float32], NDArray[np.int64]], NDArray[np.float32]]"
"""From token states of shape (b, s, d) and their mask (b, s) to sentence vectors (b, d)."""

_INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids"})


class OnnxEncoder:
    """One loaded model; any number of threads may call `encode` at once.

    EmbeddingError, prefixed with `provider`, for a graph with unknown inputs, or without vectors of `dimension`
    numbers.
    """

    known_inputs: ClassVar[frozenset[str]] = _INPUTS

    def __init__(
        self,
        provider: str,
        session: Session,
        tokenize: Tokenize,
        *,
        output: str,
        dimension: int,
        pool: Pool,
        padding: int = 0,
    ) -> None:
        import numpy as np

        self._provider = provider
        self._session = session
        kinds: dict[str, Any] = {"tensor(int32)": np.int32, "tensor(float)": np.float32}
        self._inputs = {node.name: kinds.get(node.type, np.int64) for node in session.get_inputs()}
        if strange := set(self._inputs) - self.known_inputs:
            raise EmbeddingError(f"{provider}: the graph asks for {', '.join(sorted(strange))}, which is not known")
        self._tokenize = tokenize
        self._output = output
        self._dimension = dimension
        self._pool = pool
        self._padding = padding

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return vectors of shape (len(texts), dimension), in order, independent of the batches."""
        import numpy as np

        vectors = np.empty((len(texts), self._dimension), dtype=np.float32)
        tokens = [self._tokenize(text) for text in texts]
        for batch in self.cut([len(ids) for ids in tokens], BATCH_TOKENS):
            vectors[batch] = self.run([tokens[row] for row in batch])
        return vectors

    def cut(self, lengths: Sequence[int], most: int) -> list[list[int]]:
        """Return the positions of texts, given by their numbers of tokens, that are read together, for each run."""
        return list(batches(lengths, most))

    def feed(self, tokens: Sequence[Sequence[int]]) -> tuple[dict[str, NDArray[Any]], NDArray[np.int64]]:
        """Return the inputs of the graph for one batch of token ids, and their mask, in which 0 is padding."""
        import numpy as np

        width = max(map(len, tokens))
        ids = np.full((len(tokens), width), self._padding, dtype=np.int64)
        mask = np.zeros((len(tokens), width), dtype=np.int64)
        for row, values in enumerate(tokens):
            ids[row, : len(values)] = values
            mask[row, : len(values)] = 1
        # Graphs exported from PyTorch ask for token types: a text alone is of type 0.
        return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}, mask

    def run(self, tokens: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Return the vectors of one batch of token ids, in one run."""
        import numpy as np

        known, mask = self.feed(tokens)
        feed = {name: known[name].astype(kind, copy=False) for name, kind in self._inputs.items()}
        try:
            result = self._session.run([self._output], feed)[0]
        except Exception as error:  # the driver's exceptions have no common base
            raise EmbeddingError(f"{self._provider}: the model could not be run: {error}") from error
        vectors = np.asarray(result if result.ndim == 2 else self._pool(result, mask), dtype=np.float32)
        if vectors.shape != (len(tokens), self._dimension):
            raise EmbeddingError(
                f"{self._provider}: the graph gives {vectors.shape[-1]} numbers, not {self._dimension}"
            )
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.isfinite(lengths).all() or not lengths.all():
            raise EmbeddingError(f"{self._provider}: the graph gives a vector without a direction")
        return np.asarray(vectors / lengths, dtype=np.float32)


def mean_of_tokens(states: NDArray[np.float32], mask: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the mean over the tokens without padding (Reimers and Gurevych 2019, arXiv:1908.10084)."""
    import numpy as np

    weights = mask[:, :, None].astype(np.float32)
    return np.asarray((states * weights).sum(axis=1) / weights.sum(axis=1), dtype=np.float32)


def first_token(states: NDArray[np.float32], mask: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the state of the first token, [CLS] (Devlin et al. 2019, arXiv:1810.04805)."""
    import numpy as np

    return np.asarray(states[:, 0], dtype=np.float32)


def batches(
    lengths: Sequence[int], most: int = BATCH_TOKENS, run_cost: float = RUN_COST, most_texts: int = sys.maxsize
) -> Iterator[list[int]]:
    """Return the positions of texts for each run, by length, shortest first.

    A run holds at most `most_texts` texts and `most` tokens with padding, or one text. A longer text starts a new run
    if padding the others would cost more than `run_cost` tokens.
    """
    batch: list[int] = []
    width = 0
    for position in sorted(range(len(lengths)), key=lengths.__getitem__):
        length, count = lengths[position], len(batch)
        full = count == most_texts or (count + 1) * length > most
        if batch and (full or count * (length - width) > run_cost):
            yield batch
            batch = []
        batch.append(position)
        width = length
    if batch:
        yield batch


def packs(lengths: Sequence[int], most: int) -> list[list[int]]:
    """Positions of texts that are read in one run without padding, shortest first: at most `most` tokens, or one."""
    found: list[list[int]] = []
    tokens = most
    for position in sorted(range(len(lengths)), key=lengths.__getitem__):
        length = lengths[position]
        if tokens + length > most:
            found.append([])
            tokens = 0
        found[-1].append(position)
        tokens += length
    return found


def rows_of(lengths: Sequence[int], width: int) -> list[list[int]]:
    """Positions of the texts of each row, one behind the other, such that the rows have little padding.

    A row has at most `width` tokens, or those of the longest text.
    """
    longest = max(lengths)
    if len(lengths) == 1 or longest >= width:
        return _rows_within(lengths, longest)
    tried = [_rows_within(lengths, limit) for limit in (longest, (longest + width) // 2, width)]
    return min(tried, key=lambda rows: len(rows) * max(sum(lengths[place] for place in row) for row in rows))


def _rows_within(lengths: Sequence[int], width: int) -> list[list[int]]:
    """Each text, longest first, in the first row that has room for it."""
    rows: list[list[int]] = []
    free: list[int] = []
    for position in sorted(range(len(lengths)), key=lambda position: -lengths[position]):
        length = lengths[position]
        row = next((number for number, left in enumerate(free) if left >= length), None)
        if row is None:
            rows.append([])
            free.append(width)
            row = len(rows) - 1
        rows[row].append(position)
        free[row] -= length
    return rows


def start_session(
    provider: str,
    model: str | bytes,
    threads: int,
    *,
    failure: type[PerdureError] = EmbeddingError,
    named: str = "the model",
    without: Sequence[str] = (),
) -> Session:
    """Start a session of a graph, given as a path or as its content; raise `failure` if it cannot be read.

    `without` names optimizers of ONNX Runtime that are not to change the graph.
    """
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
        return onnxruntime.InferenceSession(
            model, options, providers=["CPUExecutionProvider"], disabled_optimizers=list(without)
        )
    except Exception as error:  # the driver's exceptions have no common base
        raise failure(f"{provider}: {named} could not be loaded: {error}") from error


def fingerprint(file: Path, kept_in: Path | None = None) -> str:
    """Return the SHA-256 of a file as hexadecimal text; read again only if its size or times changed.

    With `kept_in` it is also stored in a file of that folder, so that a new process need not read 90 MB.
    """
    stat = file.stat()
    return _sha256(file, kept_in, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


SETTLED_NS = 2_000_000_000
"""Age of a file whose fingerprint is kept: a later change within one tick of the file system's clock, of which the
coarsest ticks every two seconds, would leave the same time."""


@lru_cache(maxsize=8)
def _sha256(file: Path, kept_in: Path | None, size: int, modified: int, changed: int) -> str:
    record = (
        kept_in / f"weights-{hashlib.sha256(os.fsencode(file.absolute())).hexdigest()[:16]}.json" if kept_in else None
    )
    state = {"size": size, "mtime_ns": modified, "ctime_ns": changed}
    if record and (kept := _kept(record, state)):
        return kept
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    stat = file.stat()
    is_same = (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns) == (size, modified, changed)
    if record and is_same and time.time_ns() - max(modified, changed) > SETTLED_NS:
        with suppress(OSError):  # read again next time
            _replace(record, json.dumps({**state, "sha256": digest}))
    return digest


def _kept(record: Path, state: dict[str, int]) -> str | None:
    """Return the stored fingerprint of a file in this state."""
    try:
        found = json.loads(record.read_text(encoding="utf-8"))
        digest = found.pop("sha256")
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        return None
    return digest if found == state and isinstance(digest, str) and len(digest) == 64 else None


def _replace(file: Path, text: str) -> None:
    """Write a small file atomically."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        Path(temporary).replace(file)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise
