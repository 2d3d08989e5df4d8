"""all-MiniLM-L6-v2 as an ONNX graph: token ids in, sentence vectors of length 1 out.

The model is a BERT encoder of six layers (Devlin et al. 2019, arXiv:1810.04805; Wang et al. 2020, arXiv:2002.10957),
its sentence vector the mean over the tokens (Reimers and Gurevych 2019, arXiv:1908.10084). In float32 the graph is
exact and uses plain ONNX operators, so that any runtime of opset 20 reads it. In int8 the dense layers multiply whole
numbers (LLM.int8(), Dettmers et al. 2022, arXiv:2208.07339, section 2.1: a scale for each row of the input and each
column of the matrix); one operator of ONNX Runtime's own does it.

A packed graph reads several short texts in a row, one behind the other, with hardly any padding: the tokens of a text
see only each other, and their positions begin anew (Krell et al. 2021, arXiv:2107.02027).

Weights are read and graphs are written here, byte by byte: both formats are small, and the packages for them 40 MB.
"""

from __future__ import annotations

import json
import mmap
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from perdure.domain.errors import EmbeddingError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

GRAPH_VERSION = 2  # raised whenever the graph changes: cached graphs of another version are not used
HIDDEN, HEADS, EPSILON = 384, 12, 1e-12
"""Of the published configuration (hidden_size, num_attention_heads, layer_norm_eps)."""

OPSET, IR_VERSION = 20, 9
MASKED = -1e9  # added to the attention of padding: its softmax is then exactly 0 in float32
Precision = Literal["fp32", "int8"]
INPUT_STEPS, WEIGHT_STEPS = 127, 64
"""Largest whole number of an input and of a weight in int8. Two products of 8-bit inputs and 7-bit weights fit the 16
bits that older processors add them in: the sums are exact, and alike on every processor."""
Weights: TypeAlias = "Mapping[str, NDArray[np.float32]]"
NO_ZERO = 1e-20  # added to a row's largest number before dividing by it
ZERO_POINT = 128  # what stands for 0 in the inputs, which are bytes without a sign
RUNTIME_DOMAIN = "com.microsoft"  # the domain of ONNX Runtime's own operators


def read_weights(file: Path) -> dict[str, NDArray[np.float32]]:
    """Read the tensors of a safetensors file in float32, by their BERT names; EmbeddingError if it is not MiniLM."""
    import numpy as np

    try:
        weights = {name: tensor.astype(np.float32, copy=False) for name, tensor in map_tensors(file)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise EmbeddingError(f"minilm: {file} is no readable safetensors file: {error!r}") from error
    table = weights.get("embeddings.word_embeddings.weight")
    if table is None or table.shape[1:] != (HIDDEN,) or "encoder.layer.0.attention.self.query.weight" not in weights:
        raise EmbeddingError(f"minilm: {file} does not hold a BERT encoder of {HIDDEN} dimensions")
    return weights


_FLOATS = {"F16": "<f2", "F32": "<f4", "F64": "<f8"}


def map_tensors(file: Path) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the tensors of floating numbers in a safetensors file, by their BERT names; they stay in the file.

    The format: https://github.com/huggingface/safetensors#format. ValueError, KeyError, TypeError or AttributeError
    for another one.
    """
    import numpy as np

    with file.open("rb") as stream:
        mapped = memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
    data = 8 + int.from_bytes(mapped[:8], "little")
    for name, entry in json.loads(bytes(mapped[8:data])).items():
        if name != "__metadata__" and (kind := _FLOATS.get(entry["dtype"])):
            begin, end = entry["data_offsets"]
            numbers = np.frombuffer(mapped[data + begin : data + end], np.dtype(kind))
            yield name.removeprefix("bert."), numbers.reshape(entry["shape"])


PACKED = ("input_ids", "positions", "apart", "means")
"""The inputs of a packed graph for n texts in b rows of s tokens: token ids and their places in their text, int64
[b, s]; what is added to the attention of a token to another one, 0 or `MASKED`, float32 [b, 1, s, s]; and the share of
each token in the mean of each text, float32 [n, b * s]."""


def build_graph(weights: Weights, precision: Precision = "fp32", *, packed: bool = False) -> bytes:
    """Return the serialised ONNX model: `input_ids`, `attention_mask` int64 [b, s] in, `embedding` float [b, 384] out.

    A packed one has the inputs `PACKED`. A changed int8 scheme gives other vectors, and must change the embedder's
    label.
    """
    graph = _Int8Writer(weights) if precision == "int8" else _Writer(weights)
    states = _embed_tokens(graph, packed=packed)
    mask = bias = "apart"
    if not packed:
        mask = graph.add("Cast", "attention_mask", to=FLOAT)
        hidden = graph.add("Sub", graph.floats(1.0), graph.add("Unsqueeze", mask, graph.ints(1, 2)))
        bias = graph.add("Mul", hidden, graph.floats(MASKED))
    layer = 0
    while f"encoder.layer.{layer}.output.dense.weight" in weights:
        states = _feed_forward(graph, _attend(graph, states, bias, layer), layer)
        layer += 1
    states = graph.add("Identity", states, output="last_hidden_state")
    _pool_packed(graph, states) if packed else _pool(graph, states, mask)
    pair: Shape = ["batch", "tokens"]
    inputs: dict[str, tuple[int, Shape]] = dict.fromkeys(("input_ids", "attention_mask"), (INT64, pair))
    if packed:
        shapes: list[Shape] = [pair, pair, ["batch", 1, "tokens", "tokens"], ["texts", "slots"]]
        inputs = dict(zip(PACKED, zip((INT64, INT64, FLOAT, FLOAT), shapes, strict=True), strict=True))
    outputs: dict[str, Shape] = {"embedding": ["texts" if packed else "batch", HIDDEN]}
    return graph.model("all-MiniLM-L6-v2", inputs, outputs)


JUDGEMENTS = ("relation", "sentence", "fact")
"""The outputs of a graph of judgements, each with a row of probabilities for each pair."""
PAIRED = ("states", "apart", "first", "second")
"""The inputs of a graph of judgements for b pairs of s tokens: word and position embeddings added up, float32
[b, s, 384]; 0 for a token and `MASKED` for padding, float32 [b, 1, 1, s]; and the share of each token in the mean of
the first and of the second text, float32 [b, 1, s]."""


def build_judge(weights: Weights) -> bytes:
    """Return the serialised ONNX model of judgements: `PAIRED` in, `JUDGEMENTS` out.

    `weights` are the encoder's with the trained layers in place of its upper ones, and a linear output for each
    judgement over the means of the two texts' tokens, side by side.
    """
    graph = _Int8Writer(weights)
    states = graph.norm("states", "embeddings.LayerNorm")
    layer = 0
    while f"encoder.layer.{layer}.output.dense.weight" in weights:
        states = _feed_forward(graph, _attend(graph, states, "apart", layer), layer)
        layer += 1
    means = [graph.add("Squeeze", graph.add("MatMul", share, states), graph.ints(1)) for share in ("first", "second")]
    pooled = graph.add("Concat", *means, axis=-1)
    for judgement in JUDGEMENTS:
        graph.add("Softmax", graph.linear(pooled, judgement), axis=-1, output=judgement)
    shapes: list[Shape] = [
        ["pairs", "tokens", HIDDEN], ["pairs", 1, 1, "tokens"], ["pairs", 1, "tokens"], ["pairs", 1, "tokens"],
    ]  # fmt: skip
    inputs = {name: (FLOAT, shape) for name, shape in zip(PAIRED, shapes, strict=True)}
    return graph.model("judgements", inputs, {name: ["pairs", len(weights[f"{name}.bias"])] for name in JUDGEMENTS})


class _Writer:
    """Collects nodes and constants; every method that adds a tensor returns its name."""

    domains: Mapping[str, int] = {"": OPSET}

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.nodes: list[_Message] = []
        self.constants: dict[str, _Message] = {}

    def model(self, name: str, inputs: Mapping[str, tuple[int, Shape]], outputs: Mapping[str, Shape]) -> bytes:
        """Return the serialised model; its outputs are in float32."""
        graph = [
            *(part for node in self.nodes for part in _nested(1, node)),
            *_field(2, name),
            *(part for constant in self.constants.values() for part in _nested(5, constant)),
            *(part for each, (kind, shape) in inputs.items() for part in _nested(11, _value(each, kind, shape))),
            *(part for each, shape in outputs.items() for part in _nested(12, _value(each, FLOAT, shape))),
        ]
        domains = [_nested(8, [*_field(1, domain), *_field(2, version)]) for domain, version in self.domains.items()]
        head = [*_field(1, IR_VERSION), *_field(2, "perdure"), *_field(3, str(GRAPH_VERSION)), *_nested(7, graph)]
        return b"".join([*head, *(part for domain in domains for part in domain)])

    def add(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        return self.split(operator, *inputs, outputs=[output or f"{operator}_{len(self.nodes)}"], **attributes)[0]

    def split(
        self, operator: str, *inputs: str, outputs: list[str], domain: str = "", **attributes: int | float | list[int]
    ) -> list[str]:
        node = [part for name in inputs for part in _field(1, name)]
        node += [part for name in outputs for part in _field(2, name)]
        node += [*_field(3, f"node_{len(self.nodes)}"), *_field(4, operator)]
        node += [part for name in sorted(attributes) for part in _nested(5, _attribute(name, attributes[name]))]
        self.nodes.append([*node, *(_field(7, domain) if domain else [])])
        return outputs

    def constant(self, name: str, value: NDArray[Any]) -> str:
        if name not in self.constants:
            self.constants[name] = _tensor(name, value)
        return name

    def ints(self, *values: int) -> str:
        import numpy as np

        return self.constant("ints_" + "_".join(map(str, values)), np.array(values, np.int64))

    def floats(self, value: float) -> str:
        import numpy as np

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
        product = self.product(states, f"{name}.matrix", self.weights[f"{name}.weight"].T)
        return self.add("Add", product, self.weight(f"{name}.bias"))

    def product(self, states: str, name: str, matrix: NDArray[np.float32]) -> str:
        return self.add("MatMul", states, self.constant(name, matrix))

    def rows(self, name: str, places: str) -> str:
        return self.add("Gather", self.weight(name), places)


class _Int8Writer(_Writer):
    """Writes tables and products of integers.

    Each input row has its own scale. With a single scale, as in ONNX Runtime's dynamic quantization, a text's vector
    would depend on the other texts of its run.
    """

    domains: Mapping[str, int] = {**_Writer.domains, RUNTIME_DOMAIN: 1}

    def product(self, states: str, name: str, matrix: NDArray[np.float32]) -> str:
        import numpy as np

        largest = self.add("ReduceMax", self.add("Abs", states), self.ints(-1), keepdims=1)
        largest = self.add("Add", largest, self.floats(NO_ZERO))
        step = self.floats(1 / INPUT_STEPS)
        zero = self.constant("zero_point", np.array(ZERO_POINT, np.uint8))
        rounded = self.add("QuantizeLinear", self.add("Div", states, largest), step, zero)
        numbers, scales = _rounded(matrix, 0, WEIGHT_STEPS)
        inputs = (rounded, self.constant(name, numbers), step, self.constant(f"{name}.scales", scales[0]), zero)
        sums = self.add("MatMulIntegerToFloat", *inputs, domain=RUNTIME_DOMAIN)
        return self.add("Mul", sums, largest)

    def rows(self, name: str, places: str) -> str:
        numbers, scales = _rounded(self.weights[name], 1, INPUT_STEPS)
        found = self.add("Gather", self.constant(name, numbers), places)
        found = self.add("Cast", found, to=FLOAT)
        return self.add("Mul", found, self.add("Gather", self.constant(f"{name}.scales", scales), places))


# ONNX's messages in the wire format of protocol buffers (https://protobuf.dev/programming-guides/encoding): fields of a
# number each, by their numbers in onnx.proto of opset 20. A message is a list of parts, so that no weights are copied.
_Message = list[Any]
Shape = list[int | str]
FLOAT, INT64 = 1, 7
_KINDS = {"f4": FLOAT, "u1": 2, "i1": 3, "i8": INT64}
"""Of onnx.TensorProto.DataType, those that we write."""
_IS_FLOAT, _IS_INT, _IS_INTS = 1, 2, 7
"""Of onnx.AttributeProto.AttributeType."""


def _varint(value: int) -> bytes:
    value &= 0xFFFF_FFFF_FFFF_FFFF  # a negative number is written in two's complement
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _field(number: int, value: int | str) -> _Message:
    if isinstance(value, int):
        return [_varint(number << 3) + _varint(value)]
    return _nested(number, [value.encode()])


def _nested(number: int, message: _Message) -> _Message:
    return [_varint(number << 3 | 2) + _varint(sum(map(len, message))), *message]


def _attribute(name: str, value: int | float | Sequence[int]) -> _Message:
    if isinstance(value, float):
        return [*_field(1, name), _varint(2 << 3 | 5) + struct.pack("<f", value), *_field(20, _IS_FLOAT)]
    if isinstance(value, int):
        return [*_field(1, name), *_field(3, value), *_field(20, _IS_INT)]
    return [*_field(1, name), *(part for each in value for part in _field(8, each)), *_field(20, _IS_INTS)]


def _tensor(name: str, value: NDArray[Any]) -> _Message:
    import numpy as np

    value = np.ascontiguousarray(value)  # of one dimension at least
    raw = value.reshape(-1).view(np.uint8).data
    head = [part for size in value.shape for part in _field(1, size)]
    return [*head, *_field(2, _KINDS[value.dtype.str[1:]]), *_field(8, name), *_nested(9, [raw])]


def _value(name: str, kind: int, shape: Shape) -> _Message:
    sizes = [part for each in shape for part in _nested(1, _field(1 if isinstance(each, int) else 2, each))]
    return [*_field(1, name), *_nested(2, _nested(1, [*_field(1, kind), *_nested(2, sizes)]))]


def _rounded(values: NDArray[np.float32], axis: int, steps: int) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return integers of at most `steps`, and the factor for each position off the axis that restores the values."""
    import numpy as np

    largest = np.maximum(np.abs(values).max(axis=axis, keepdims=True), np.finfo(np.float32).tiny * steps)
    scales = (largest / steps).astype(np.float32)
    return np.rint(values / scales).astype(np.int8), scales


def _embed_tokens(graph: _Writer, *, packed: bool) -> str:
    """Add word and position embeddings; the row of the only segment is already part of the position table."""
    weights = graph.weights
    table = weights["embeddings.position_embeddings.weight"] + weights["embeddings.token_type_embeddings.weight"][0]
    places = graph.constant("position_table", table)
    if packed:
        positions = graph.add("Gather", places, "positions")
    else:
        length = graph.add("Slice", graph.add("Shape", "input_ids"), graph.ints(1), graph.ints(2), graph.ints(0))
        positions = graph.add("Slice", places, graph.ints(0), length, graph.ints(0))
    words = graph.rows("embeddings.word_embeddings.weight", "input_ids")
    return graph.norm(graph.add("Add", words, positions), "embeddings.LayerNorm")


def _attend(graph: _Writer, states: str, bias: str, layer: int) -> str:
    """Multi-head self-attention with one matrix for query, key and value; the 1/sqrt(d) is folded into the query."""
    import numpy as np

    prefix = f"encoder.layer.{layer}.attention"
    width = HIDDEN // HEADS
    scales = {"query": np.float32(width**-0.5), "key": np.float32(1), "value": np.float32(1)}
    matrix = [graph.weights[f"{prefix}.self.{part}.weight"].T * scale for part, scale in scales.items()]
    offset = [graph.weights[f"{prefix}.self.{part}.bias"] * scale for part, scale in scales.items()]
    joined = graph.product(states, f"{prefix}.matrix", np.concatenate(matrix, axis=1))
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
    graph.add("Div", mean, graph.add("ReduceL2", mean, rows, keepdims=1), output="embedding")


def _pool_packed(graph: _Writer, states: str) -> None:
    """The mean over the tokens of each text, at length 1."""
    mean = graph.add("MatMul", "means", graph.add("Reshape", states, graph.ints(-1, HIDDEN)))
    graph.add("Div", mean, graph.add("ReduceL2", mean, graph.ints(1), keepdims=1), output="embedding")
