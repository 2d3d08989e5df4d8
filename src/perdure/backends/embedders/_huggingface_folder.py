"""A model in a folder as Hugging Face lays it out: the ONNX graph, the tokenizer, and what their settings say."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perdure.backends.embedders._minilm_files import fingerprint
from perdure.backends.embedders._onnx import (
    OnnxEncoder,
    Pool,
    Session,
    Tokenize,
    first_token,
    mean_of_tokens,
    start_session,
)
from perdure.domain.errors import ConfigError, EmbeddingError

FIELD = "embedder.config.path"
GRAPHS = ("onnx/model.onnx", "model.onnx")
TOKENIZER = "tokenizer.json"
POOLINGS: dict[str, Pool] = {"mean": mean_of_tokens, "cls": first_token}
MAX_TOKENS = 512
"""Where neither the settings nor the tokenizer say how much the model reads: the length of BERT."""

_RUN_HERE = {"Transformer", "Pooling", "Normalize"}
"""Modules of sentence-transformers that are run: the graph, the pooling, and the scaling to length 1, which is always
done."""
_FLAGS = {"mean_tokens": "mean", "cls_token": "cls"}
_SHIFTED = {"roberta", "xlm-roberta", "camembert", "mpnet"}
"""Models whose positions begin behind the padding's number, so that they read that many fewer tokens."""
_OUTPUTS = ("sentence_embedding", "embedding", "last_hidden_state", "token_embeddings")


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """What is needed to run the model; `most_tokens` and `padding` are None where the tokenizer's file decides."""

    graph: Path
    tokenizer: Path
    dimension: int
    pooling: str
    most_tokens: int | None
    padding: int | None

    def digest(self) -> str:
        """A hash of all that the vectors depend on, as 12 hexadecimal digits."""
        weights = sorted(file for file in self.graph.parent.glob(f"{self.graph.name}*") if file.is_file())
        parts = [*map(fingerprint, [*weights, self.tokenizer]), self.pooling, str(self.most_tokens)]
        return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:12]


def read_folder(path: Path) -> ModelFolder:
    """The model in the folder; ConfigError if a file is missing or its vectors cannot be made here."""
    graph = next((path / name for name in GRAPHS if (path / name).is_file()), None)
    if graph is None or not (path / TOKENIZER).is_file():
        raise _wrong(path, f"holds no {TOKENIZER} with {' or '.join(GRAPHS)}")
    config = _object(path / "config.json")
    dimension = config.get("hidden_size", config.get("dim"))  # the latter is DistilBERT's word
    if not isinstance(dimension, int) or dimension < 1:
        raise _wrong(path, "does not say how long the vectors are: config.json has no hidden_size")
    padding = config.get("pad_token_id")
    return ModelFolder(
        graph=graph,
        tokenizer=path / TOKENIZER,
        dimension=dimension,
        pooling=_pooling(path),
        most_tokens=_most_tokens(path, config),
        padding=padding if isinstance(padding, int) else None,
    )


def load_encoder(folder: ModelFolder, threads: int) -> OnnxEncoder:
    """The model, loaded; EmbeddingError if a file cannot be read or the graph's vectors are of another length."""
    from tokenizers import Tokenizer  # heavy driver: on first use only

    try:
        tokenizer = Tokenizer.from_file(str(folder.tokenizer))
    except Exception as error:  # the driver raises plain Exception
        raise EmbeddingError(f"huggingface: {folder.tokenizer} is no readable tokenizer: {error}") from error
    most = folder.most_tokens or (tokenizer.truncation or {}).get("max_length", MAX_TOKENS)
    padding = folder.padding if folder.padding is not None else (tokenizer.padding or {}).get("pad_id", 0)
    tokenizer.no_padding()
    tokenizer.enable_truncation(most)
    session = start_session("huggingface", str(folder.graph), threads)
    return OnnxEncoder(
        "huggingface",
        session,
        _tokenize_with(tokenizer, padding),
        output=_output(session, folder.dimension),
        dimension=folder.dimension,
        pool=POOLINGS[folder.pooling],
        padding=padding,
    )


def _tokenize_with(tokenizer: Any, padding: int) -> Tokenize:
    # One text at a time: the driver's own batch call starts threads, and warns when the process forks later.
    def tokenize(text: str) -> list[int]:
        ids: list[int] = tokenizer.encode(text).ids
        return ids or [padding]  # a tokenizer that adds no special tokens makes none of an empty text

    return tokenize


def _output(session: Session, dimension: int) -> str:
    """The sentence vector where the graph has one, else the states of the tokens; EmbeddingError if it has neither."""
    shapes = {node.name: node.shape for node in session.get_outputs()}
    for name in _OUTPUTS:
        shape = shapes.get(name, [])
        if len(shape) in (2, 3) and (shape[-1] == dimension or not isinstance(shape[-1], int)):
            return name
    wanted = " or ".join(_OUTPUTS)
    raise EmbeddingError(f"huggingface: the graph has no {wanted} of {dimension} numbers, only {shapes}")


def _pooling(path: Path) -> str:
    """`mean` or `cls`; without settings the mean, as sentence-transformers has it."""
    place = "1_Pooling"
    for module in _listed(path / "modules.json"):
        kind = str(module.get("type")).rpartition(".")[2]
        if kind not in _RUN_HERE:
            raise _wrong(path, f"needs the module {kind} of modules.json, which is not run here")
        if kind == "Pooling":
            place = str(module.get("path"))
    config = _object(path / place / "config.json", needed=False)
    named = config.get("pooling_mode", [])
    flags = [key.removeprefix("pooling_mode_") for key, on in config.items() if key.startswith("pooling_mode_") and on]
    found: set[str] = {
        *([named] if isinstance(named, str) else named),
        *(_FLAGS.get(flag, flag) for flag in flags),
    } or {"mean"}
    if len(found) > 1 or not found <= set(POOLINGS):
        raise _wrong(path, f"pools by {' and '.join(sorted(found))}; known are {', '.join(POOLINGS)}")
    return found.pop()


def _most_tokens(path: Path, config: dict[str, Any]) -> int | None:
    """What sentence-transformers reads of a text, else what the tokenizer does; never more than there are positions."""
    own = _object(path / "sentence_bert_config.json", needed=False).get("max_seq_length")
    told = _object(path / "tokenizer_config.json", needed=False).get("model_max_length")
    positions = config.get("max_position_embeddings")
    if isinstance(positions, int) and config.get("model_type") in _SHIFTED:
        positions -= int(config.get("pad_token_id") or 0) + 1
    # A tokenizer without a limit has the number 10**30 in its settings.
    known = [limit for limit in (own, told) if isinstance(limit, int) and 0 < limit < 10**6][:1]
    limits = [*known, *([positions] if isinstance(positions, int) and positions > 0 else [])]
    return min(limits, default=None)


def _listed(file: Path) -> list[dict[str, Any]]:
    if not file.is_file():
        return []
    found = _json(file)
    if not isinstance(found, list) or not all(isinstance(module, dict) for module in found):
        raise _wrong(file, "is no list of modules")
    return found


def _object(file: Path, *, needed: bool = True) -> dict[str, Any]:
    if not needed and not file.is_file():
        return {}
    found = _json(file)
    if not isinstance(found, dict):
        raise _wrong(file, "holds no settings")
    return found


def _json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise _wrong(file, f"cannot be read ({type(error).__name__})") from None
    except ValueError:
        raise _wrong(file, "is no JSON") from None


def _wrong(path: Path, problem: str) -> ConfigError:
    return ConfigError(f"{FIELD}: {path} {problem}", field=FIELD, value=str(path))
