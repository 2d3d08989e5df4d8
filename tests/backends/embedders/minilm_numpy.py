"""all-MiniLM-L6-v2 by hand: one text at a time, in float64 NumPy, straight from the published tensors.

Shares no line with perdure's graph, so that the two can only agree by being right. Run as a program it writes the
vectors that test_minilm.py holds the embedder against (minilm_vectors.npy).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from perdure.backends.embedders.minilm import ModelFiles, find_model

LAYERS, HEADS, LENGTH = 6, 12, 256
_erf = np.vectorize(math.erf)


def forward(files: ModelFiles, texts: Sequence[str]) -> np.ndarray:
    """Vectors of shape (len(texts), 384), float32, length 1."""
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    tensors = {name: tensor.astype(np.float64) for name, tensor in load_file(str(files.weights)).items()}
    tokenizer = Tokenizer.from_file(str(files.tokenizer))
    tokenizer.no_padding()
    tokenizer.enable_truncation(LENGTH)
    return np.array([_sentence(tensors, tokenizer.encode(text).ids) for text in texts], dtype=np.float32)


def _sentence(tensors: dict[str, np.ndarray], ids: list[int]) -> np.ndarray:
    rows = tensors["embeddings.word_embeddings.weight"][ids]
    rows = rows + tensors["embeddings.position_embeddings.weight"][range(len(ids))]
    rows = _norm(tensors, "embeddings.LayerNorm", rows + tensors["embeddings.token_type_embeddings.weight"][0])
    for layer in range(LAYERS):
        rows = _layer(tensors, f"encoder.layer.{layer}", rows)
    mean = rows.mean(axis=0)
    return mean / np.sqrt((mean**2).sum())


def _layer(tensors: dict[str, np.ndarray], name: str, rows: np.ndarray) -> np.ndarray:
    query, key, value = (_dense(tensors, f"{name}.attention.self.{part}", rows) for part in ("query", "key", "value"))
    width = rows.shape[1] // HEADS
    heads = []
    for head in range(HEADS):
        own = slice(head * width, (head + 1) * width)
        weights = np.exp(query[:, own] @ key[:, own].T / math.sqrt(width))
        heads.append(weights / weights.sum(axis=1, keepdims=True) @ value[:, own])
    attended = _dense(tensors, f"{name}.attention.output.dense", np.concatenate(heads, axis=1))
    rows = _norm(tensors, f"{name}.attention.output.LayerNorm", rows + attended)
    inner = _dense(tensors, f"{name}.intermediate.dense", rows)
    inner = inner * 0.5 * (1 + _erf(inner / math.sqrt(2)))
    return _norm(tensors, f"{name}.output.LayerNorm", rows + _dense(tensors, f"{name}.output.dense", inner))


def _dense(tensors: dict[str, np.ndarray], name: str, rows: np.ndarray) -> np.ndarray:
    return rows @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"]


def _norm(tensors: dict[str, np.ndarray], name: str, rows: np.ndarray) -> np.ndarray:
    rows = rows - rows.mean(axis=1, keepdims=True)
    rows = rows / np.sqrt((rows**2).mean(axis=1, keepdims=True) + 1e-12)
    return rows * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]


if __name__ == "__main__":
    from tests.backends.embedders.test_minilm import OWN_SENTENCES

    model = find_model(None, None)
    assert model, "the weights package is not installed"
    np.save(Path(__file__).with_name("minilm_vectors.npy"), forward(model, OWN_SENTENCES))
