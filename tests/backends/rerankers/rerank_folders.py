"""Folders with a tiny cross-encoder, whose logit can be counted by hand: the words that a query and a text share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

WORDS = (
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "user", "likes", "tea", "and", "coffee", "lisbon", "moved", "to", "where"),
    *("does", "live", "the", "a", "dog", "in", "berlin", "works", "at", "bakery", "我", "喜", "欢", "茶", "грет"),
)
LENGTH_COST = 1 / 1024
"""What each token takes from the logit, so that padding that is read as text shows."""
SPECIAL = 4


def by_hand(query: str, text: str, most: int = 512) -> float:
    """The logit of a pair whose words are all separated by spaces; [CLS] and two [SEP] are read with them."""
    asked, read = _cut(query.lower().split(), text.lower().split(), most - 3)
    known = set(WORDS[SPECIAL:])
    shared = sum(1 for left in asked for right in read if left == right and left in known)
    return shared - LENGTH_COST * (len(asked) + len(read) + 3)


def _cut(asked: list[str], read: list[str], most: int) -> tuple[list[str], list[str]]:
    """The longer of the two first, as far as the other's length; then both alike, the longer keeping an odd word."""
    if len(asked) + len(read) <= most:
        return asked, read
    if len(asked) > len(read):
        read, asked = _cut(read, asked, most)
        return asked, read
    first = min(len(asked), most // 2)
    return asked[:first], read[: most - first]


def tiny_graph(
    *,
    types: bool = True,
    kind: str = "int64",
    logits: int = 1,
    output: str = "logits",
    extra_input: str | None = None,
    extra_output: str | None = None,
    scale: float = 1.0,
) -> bytes:
    """A graph whose logit is the number of equal tokens of query and text, minus LENGTH_COST for each token.

    Which tokens are whose is told by the token types, or without `types` by the first [SEP]. Of two `logits` the first
    is the negative of the second.
    """
    from onnx import TensorProto, helper, numpy_helper

    node, number = helper.make_node, {"int64": TensorProto.INT64, "int32": TensorProto.INT32}[kind]
    second = (
        [node("Cast", ["token_type_ids"], ["second"], to=TensorProto.FLOAT)]
        if types
        else [
            node("Equal", ["input_ids", "separator"], ["ends"]),
            node("Cast", ["ends"], ["ended"], to=TensorProto.FLOAT),
            node("CumSum", ["ended", "axis"], ["passed"], exclusive=1),
            node("Clip", ["passed", "nothing", "whole"], ["second"]),
        ]
    )
    nodes = [
        *second,
        node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        node("Greater", ["input_ids", "special"], ["words"]),
        node("Cast", ["words"], ["word"], to=TensorProto.FLOAT),
        node("Sub", ["whole", "second"], ["first"]),
        node("Mul", ["word", "first"], ["asked"]),
        node("Mul", ["word", "second"], ["read"]),
        node("Unsqueeze", ["input_ids", "two"], ["rows"]),
        node("Unsqueeze", ["input_ids", "one"], ["columns"]),
        node("Equal", ["rows", "columns"], ["equal"]),
        node("Cast", ["equal"], ["same"], to=TensorProto.FLOAT),
        node("Unsqueeze", ["asked", "two"], ["asked_rows"]),
        node("Unsqueeze", ["read", "one"], ["read_columns"]),
        node("Mul", ["asked_rows", "read_columns"], ["across"]),
        node("Mul", ["across", "same"], ["hits"]),
        node("ReduceSum", ["hits", "both"], ["shared"], keepdims=0),
        node("ReduceSum", ["mask", "one"], ["length"], keepdims=0),
        node("Mul", ["length", "cost"], ["dues"]),
        node("Sub", ["shared", "dues"], ["plain"]),
        node("Mul", ["plain", "scale"], ["scaled"]),
        node("Unsqueeze", ["scaled", "one"], ["logit"]),
        node("Neg", ["logit"], ["against"]),
        node("Concat", [["logit"], ["against", "logit"], ["logit"] * 3][logits - 1], [output], axis=1),
        *([node("Identity", ["second"], [extra_output])] if extra_output else []),
    ]
    inputs = ["input_ids", "attention_mask", *(["token_type_ids"] if types else []), *filter(None, [extra_input])]
    return _model(nodes, inputs, number, kind, scale, {output: ["b", logits], **_second(extra_output)}, numpy_helper)


def _second(name: str | None) -> dict[str, list[Any]]:
    return {name: ["b", "s"]} if name else {}


def _model(
    nodes: list[Any],
    inputs: list[str],
    number: int,
    kind: str,
    scale: float,
    outputs: dict[str, list[Any]],
    numpy_helper: Any,
) -> bytes:
    import numpy as np
    from onnx import TensorProto, helper

    constants = {
        "special": np.array(SPECIAL - 1, kind), "separator": np.array(3, kind), "axis": np.array(1, np.int64),
        "one": np.array([1], np.int64), "two": np.array([2], np.int64), "both": np.array([1, 2], np.int64),
        "nothing": np.array(0, np.float32), "whole": np.array(1, np.float32),
        "cost": np.array(LENGTH_COST, np.float32), "scale": np.array(scale, np.float32),
    }  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(name, number, ["b", "s"]) for name in inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in reversed(outputs.items())],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    return bytes(model.SerializeToString())


def tiny_tokenizer(*, special: bool = True) -> str:
    """A tokenizer of the words as JSON that asks for 128 tokens each; `special` frames a pair as BERT does."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if special:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
        )
    tokenizer.enable_truncation(128)
    tokenizer.enable_padding(length=128)
    return str(tokenizer.to_str())


def tiny_folder(
    folder: Path, *, graph: bytes | None = None, place: str = "onnx/model.onnx", config: dict[str, Any] | None = None
) -> Path:
    """The tiny model in a folder, as the hub's repositories are laid out."""
    (folder / place).parent.mkdir(parents=True, exist_ok=True)
    (folder / place).write_bytes(tiny_graph() if graph is None else graph)
    (folder / "tokenizer.json").write_text(tiny_tokenizer(), encoding="utf-8")
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder
