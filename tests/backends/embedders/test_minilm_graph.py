"""The graphs that we write byte by byte are ONNX, and weights are read as the package `safetensors` reads them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from safetensors.numpy import load_file, save_file

from perdure.backends.embedders._minilm_graph import (
    IR_VERSION,
    OPSET,
    Weights,
    _attribute,
    _tensor,
    _varint,
    build_graph,
    build_judge,
    map_tensors,
    read_weights,
)
from perdure.backends.embedders._minilm_judge import judge_weights
from perdure.backends.embedders.minilm import ModelFiles, find_model
from perdure.domain.errors import EmbeddingError


@pytest.fixture(scope="module")
def files() -> ModelFiles:
    found = find_model(None, None)
    assert found is not None, "the weights package is installed for tests"
    return found


BUILDERS: dict[str, Callable[[Weights], bytes]] = {
    "fp32": build_graph,
    "packed": lambda weights: build_graph(weights, packed=True),
    "int8": lambda weights: build_graph(weights, "int8"),
    "judge": lambda weights: build_judge(judge_weights(weights)),
}


@pytest.mark.parametrize("name", BUILDERS)
def test_onnx_finds_no_fault_and_would_write_the_same_bytes(files: ModelFiles, name: str) -> None:
    written = BUILDERS[name](read_weights(files.weights))
    model = onnx.load_from_string(written)
    onnx.checker.check_model(model)
    assert (model.ir_version, model.opset_import[0].version) == (IR_VERSION, OPSET)
    assert bytes(model.SerializeToString(deterministic=True)) == written


@pytest.mark.parametrize("number", [0, 1, 127, 128, 300, 2**31, 2**63 - 1, -1, -(2**63)])
def test_whole_numbers_are_written_as_protocol_buffers_do(number: int) -> None:
    read = onnx.AttributeProto.FromString(b"".join(_attribute("a", number)))
    assert (read.name, onnx.helper.get_attribute_value(read)) == ("a", number)
    assert 1 <= len(_varint(number)) <= 10
    lists = onnx.AttributeProto.FromString(b"".join(_attribute("a", [number, 0])))
    assert list(onnx.helper.get_attribute_value(lists)) == [number, 0]


@pytest.mark.parametrize("kind", [np.float32, np.uint8, np.int8, np.int64])
def test_tensors_of_each_kind_come_back(kind: type) -> None:
    for value in (np.arange(12).reshape(3, 4).T.astype(kind), np.zeros((0, 3), kind)):
        tensor = onnx.TensorProto.FromString(b"".join(_tensor("t", value)))
        assert np.array_equal(onnx.numpy_helper.to_array(tensor), value)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_weights_are_read_as_safetensors_reads_them(tmp_path: Path, kind: type) -> None:
    random = np.random.default_rng(1)
    tensors = {
        "bert.embeddings.word_embeddings.weight": random.normal(size=(9, 384)).astype(kind),
        "bert.encoder.layer.0.attention.self.query.weight": random.normal(size=(3, 2)).astype(kind),
        "scalar": np.array(2.5, kind),
        "positions": np.arange(4),
    }
    save_file(tensors, str(tmp_path / "w.safetensors"), metadata={"format": "pt"})
    found = read_weights(tmp_path / "w.safetensors")
    expected = load_file(str(tmp_path / "w.safetensors"))
    assert {*found} == {name.removeprefix("bert.") for name in expected if name != "positions"}
    for name, value in expected.items():
        if name != "positions":
            got = found[name.removeprefix("bert.")]
            assert got.dtype == np.float32
            assert np.array_equal(got, value.astype(np.float32))


def saved(header: object, data: bytes = b"") -> bytes:
    written = json.dumps(header).encode()
    return len(written).to_bytes(8, "little") + written + data


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00" * 8,
        b"\xff" * 16,
        saved([1]),
        saved({"t": 1}),
        saved({"t": {"dtype": "F32"}}),
        saved({"t": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, b"1234"),
        saved({"t": {"dtype": "F32", "shape": [1], "data_offsets": [0, 3]}}, b"1234"),
        saved({"t": {"dtype": "F32", "shape": [1], "data_offsets": ["0", 4]}}, b"1234"),
        saved({"t": {"dtype": ["F32"], "shape": [1], "data_offsets": [0, 4]}}, b"1234"),
    ],
)
def test_a_damaged_file_is_an_embedding_error(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(content)
    with pytest.raises(EmbeddingError, match=r"model\.safetensors"):
        read_weights(file)


def test_tensors_stay_in_their_file(files: ModelFiles) -> None:
    assert all(not tensor.flags.owndata and not tensor.flags.writeable for _, tensor in map_tensors(files.weights))
