"""Folders with ONNX models for tests: the published MiniLM, and a tiny model whose vectors are made by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from perdure.backends.embedders.minilm import HIDDEN, ModelFiles, build_graph, read_weights

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "user", "likes", "tea", "and", "coffee", "lisbon")
TABLE = np.random.default_rng(7).standard_normal((len(WORDS), 6)).astype(np.float32)
TYPES = np.random.default_rng(8).standard_normal((2, 6)).astype(np.float32)
MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
]


def write_json(file: Path, value: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value), encoding="utf-8")


def minilm_folder(folder: Path, files: ModelFiles, *, states: bool) -> Path:
    """The published model as its authors lay it out; with `states` the graph ends before the pooling."""
    import onnx
    from onnx import TensorProto, helper

    graph = build_graph(read_weights(files.weights))
    if states:
        model = onnx.load_model_from_string(graph)
        del model.graph.output[:]
        shape = ["batch", "tokens", HIDDEN]
        model.graph.output.append(helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, shape))
        graph = model.SerializeToString()
    (folder / "onnx").mkdir(parents=True)
    (folder / "onnx" / "model.onnx").write_bytes(graph)
    (folder / "tokenizer.json").write_bytes(files.tokenizer.read_bytes())
    config = {"model_type": "bert", "hidden_size": HIDDEN, "max_position_embeddings": 512, "pad_token_id": 0}
    write_json(folder / "config.json", config)
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": 256, "do_lower_case": False})
    write_json(folder / "modules.json", MODULES)
    pooling = {"word_embedding_dimension": HIDDEN, "pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}
    write_json(folder / "1_Pooling" / "config.json", pooling)
    return folder


def tiny_graph(
    *,
    types: bool = True,
    kind: str = "int64",
    output: str = "last_hidden_state",
    table: np.ndarray = TABLE,
    extra_input: str | None = None,
    pooled: bool = False,
    padding: int | None = None,
) -> bytes:
    """A graph in which the state of a token is its own row plus the mean of all rows that are no padding.

    With `types` the rows of the token types are added; `pooled` gives the first token's state alone. With `padding`
    the graph knows padding by this number, as RoBERTa does when it counts positions, and not by the mask.
    """
    from onnx import TensorProto, helper, numpy_helper

    number = {"int64": TensorProto.INT64, "int32": TensorProto.INT32}[kind]
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["words"]),
        helper.make_node("Equal", ["input_ids", "padding"], ["empty"]),
        helper.make_node("Not", ["empty"], ["full"]),
        helper.make_node("Cast", ["attention_mask" if padding is None else "full"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask", "two"], ["wide"]),
        *(
            [
                helper.make_node("Gather", ["types", "token_type_ids"], ["typed"]),
                helper.make_node("Add", ["words", "typed"], ["rows"]),
            ]
            if types
            else [helper.make_node("Identity", ["words"], ["rows"])]
        ),
        helper.make_node("Mul", ["rows", "wide"], ["kept"]),
        helper.make_node("ReduceSum", ["kept", "one"], ["total"], keepdims=1),
        helper.make_node("ReduceSum", ["wide", "one"], ["count"], keepdims=1),
        helper.make_node("Div", ["total", "count"], ["mean"]),
        helper.make_node("Add", ["rows", "mean"], ["states"]),
        helper.make_node("Gather", ["states", "zero"], [output], axis=1)
        if pooled
        else helper.make_node("Identity", ["states"], [output]),
    ]
    inputs = [
        "input_ids",
        "attention_mask",
        *(["token_type_ids"] if types else []),
        *([extra_input] if extra_input else []),
    ]
    shape = ["b", table.shape[1]] if pooled else ["b", "s", table.shape[1]]
    constants = {
        "table": table, "types": TYPES, "one": np.array([1], np.int64), "two": np.array([2], np.int64),
        "zero": np.array(0, np.int64), "padding": np.array(-1 if padding is None else padding, kind),
    }  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(name, number, ["b", "s"]) for name in inputs],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    return bytes(model.SerializeToString())


def tiny_tokenizer(*, special: bool = True, most: int | None = None, padding: int | None = None) -> str:
    """A tokenizer of the ten words as JSON; `special` frames a text with [CLS] and [SEP]."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    if special:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
    if most:
        tokenizer.enable_truncation(most)
    if padding is not None:
        tokenizer.enable_padding(pad_id=padding)
    return str(tokenizer.to_str())


def tiny_folder(
    folder: Path,
    *,
    graph: bytes | None = None,
    tokenizer: str | None = None,
    config: dict[str, Any] | None = None,
    pooling: dict[str, Any] | None = None,
    modules: Sequence[dict[str, Any]] | None = None,
    **files: dict[str, Any],
) -> Path:
    """The tiny model in a folder; `files` are further settings by name, without .json."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(tiny_graph() if graph is None else graph)
    (folder / "tokenizer.json").write_text(tokenizer or tiny_tokenizer(), encoding="utf-8")
    write_json(folder / "config.json", {"model_type": "bert", "hidden_size": 6} if config is None else config)
    if pooling is not None:
        write_json(folder / "1_Pooling" / "config.json", pooling)
    if modules is not None:
        write_json(folder / "modules.json", modules)
    for name, value in files.items():
        write_json(folder / f"{name}.json", value)
    return folder


def by_hand(ids: Sequence[int], pooling: str, *, types: bool = True) -> np.ndarray:
    """The vector of these tokens, of length 1, in float64."""
    rows = TABLE[list(ids)].astype(np.float64) + (TYPES[0] if types else 0)
    states = rows + rows.mean(axis=0)
    vector = states[0] if pooling == "cls" else states.mean(axis=0)
    return np.asarray(vector / np.linalg.norm(vector))
