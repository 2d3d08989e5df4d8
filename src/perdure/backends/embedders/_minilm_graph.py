"""all-MiniLM-L6-v2 as an ONNX graph: token ids in, sentence vectors of length 1 out.

The model is a BERT encoder of six layers (Devlin et al. 2019, arXiv:1810.04805; Wang et al. 2020, arXiv:2002.10957),
its sentence vector the mean over the tokens (Reimers and Gurevych 2019, arXiv:1908.10084). In float32 the graph is
exact and uses plain ONNX operators, so that any runtime of opset 20 reads it. In int8 the dense layers multiply whole
numbers (LLM.int8(), Dettmers et al. 2022, arXiv:2208.07339, section 2.1: a scale for each row of the input and each
column of the matrix); one operator of ONNX Runtime's own does it.

A packed graph reads several short texts in a row, one behind the other, with hardly any padding: the tokens of a text
see only each other, and their positions begin anew (Krell et al. 2021, arXiv:2107.02027).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from perdure.domain.errors import EmbeddingError

GRAPH_VERSION = 2  # raised whenever the graph changes: cached graphs of another version are not used
HIDDEN, HEADS, EPSILON = 384, 12, 1e-12
"""Of the published configuration (hidden_size, num_attention_heads, layer_norm_eps)."""

OPSET, IR_VERSION = 20, 9
MASKED = -1e9  # added to the attention of padding: its softmax is then exactly 0 in float32
Precision = Literal["fp32", "int8"]
INPUT_STEPS, WEIGHT_STEPS = 127, 64
"""Largest whole number of an input and of a weight in int8. Two products of 8-bit inputs and 7-bit weights fit the 16
bits that older processors add them in: the sums are exact, and alike on every processor."""
NO_ZERO = 1e-20  # added to a row's largest number before dividing by it
ZERO_POINT = 128  # what stands for 0 in the inputs, which are bytes without a sign
RUNTIME_DOMAIN = "com.microsoft"  # the domain of ONNX Runtime's own operators
Weights = Mapping[str, NDArray[np.float32]]


def read_weights(file: Path) -> dict[str, NDArray[np.float32]]:
    """Read the tensors of a safetensors file in float32, by their BERT names; EmbeddingError if it is not MiniLM."""
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


PACKED = ("input_ids", "positions", "apart", "means")
"""The inputs of a packed graph for n texts in b rows of s tokens: token ids and their places in their text, int64
[b, s]; what is added to the attention of a token to another one, 0 or `MASKED`, float32 [b, 1, s, s]; and the share of
each token in the mean of each text, float32 [n, b * s]."""


def build_graph(weights: Weights, precision: Precision = "fp32", *, packed: bool = False) -> bytes:
    """Return the serialised ONNX model: `input_ids`, `attention_mask` int64 [b, s] in, `embedding` float [b, 384] out.

    A packed one has the inputs `PACKED`. A changed int8 scheme gives other vectors, and must change the embedder's
    label.
    """
    from onnx import TensorProto, checker, helper  # heavy driver: on first use only

    graph = _Int8Writer(weights) if precision == "int8" else _Writer(weights)
    domains = [helper.make_opsetid("", OPSET)]
    if precision == "int8":
        domains.append(helper.make_opsetid(RUNTIME_DOMAIN, 1))
    states = _embed_tokens(graph, packed=packed)
    mask = bias = "apart"
    if not packed:
        mask = graph.add("Cast", "attention_mask", to=TensorProto.FLOAT)
        hidden = graph.add("Sub", graph.floats(1.0), graph.add("Unsqueeze", mask, graph.ints(1, 2)))
        bias = graph.add("Mul", hidden, graph.floats(MASKED))
    layer = 0
    while f"encoder.layer.{layer}.output.dense.weight" in weights:
        states = _feed_forward(graph, _attend(graph, states, bias, layer), layer)
        layer += 1
    states = graph.add("Identity", states, output="last_hidden_state")
    _pool_packed(graph, states) if packed else _pool(graph, states, mask)
    pair: list[int | str] = ["batch", "tokens"]
    inputs = dict.fromkeys(("input_ids", "attention_mask"), (TensorProto.INT64, pair))
    if packed:
        shapes: list[list[int | str]] = [pair, pair, ["batch", 1, "tokens", "tokens"], ["texts", "slots"]]
        kinds = (TensorProto.INT64, TensorProto.INT64, TensorProto.FLOAT, TensorProto.FLOAT)
        inputs = dict(zip(PACKED, zip(kinds, shapes, strict=True), strict=True))
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "all-MiniLM-L6-v2",
            [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()],
            [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["texts" if packed else "batch", HIDDEN])],
            list(graph.constants.values()),
        ),
        producer_name="perdure",
        producer_version=str(GRAPH_VERSION),
        opset_imports=domains,
        ir_version=IR_VERSION,
    )
    checker.check_model(model)
    return bytes(model.SerializeToString())


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
    from onnx import TensorProto, checker, helper  # heavy driver: on first use only

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
    shapes: list[list[int | str]] = [
        ["pairs", "tokens", HIDDEN], ["pairs", 1, 1, "tokens"], ["pairs", 1, "tokens"], ["pairs", 1, "tokens"],
    ]  # fmt: skip
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "judgements",
            [
                helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
                for name, shape in zip(PAIRED, shapes, strict=True)
            ],
            [
                helper.make_tensor_value_info(name, TensorProto.FLOAT, ["pairs", len(weights[f"{name}.bias"])])
                for name in JUDGEMENTS
            ],
            list(graph.constants.values()),
        ),
        producer_name="perdure",
        producer_version=str(GRAPH_VERSION),
        opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid(RUNTIME_DOMAIN, 1)],
        ir_version=IR_VERSION,
    )
    checker.check_model(model)
    return bytes(model.SerializeToString())


class _Writer:
    """Collects nodes and constants; every method returns the name of the tensor that it adds."""

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

    def product(self, states: str, name: str, matrix: NDArray[np.float32]) -> str:
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
        from onnx import TensorProto  # heavy driver: on first use only

        numbers, scales = _rounded(self.weights[name], 1, INPUT_STEPS)
        found = self.add("Gather", self.constant(name, numbers), places)
        found = self.add("Cast", found, to=TensorProto.FLOAT)
        return self.add("Mul", found, self.add("Gather", self.constant(f"{name}.scales", scales), places))


def _rounded(values: NDArray[np.float32], axis: int, steps: int) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return integers of at most `steps`, and the factor for each position off the axis that restores the values."""
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
