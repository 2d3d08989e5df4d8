"""minilm in 8-bit numbers: near the published vectors, on its own label, and never among the others."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perdure import Memory
from perdure.backends.embedders import minilm
from perdure.backends.embedders.minilm import MiniLMEmbedder, ModelFiles, build_graph, find_model, read_weights
from perdure.domain.errors import ConfigError
from perdure.engine.build import build
from perdure.engine.config.config import read_config
from perdure.engine.maintenance.reindex import reindex
from tests.backends.embedders.test_minilm import OWN_SENTENCES, copy_model, embed, make


@pytest.fixture(scope="module")
def files() -> ModelFiles:
    found = find_model(None, None)
    if found is None or found.is_graph:
        pytest.skip("the weights package perdure-minilm is not installed")
    return found


@pytest.fixture(scope="module")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("minilm")


@pytest.fixture(scope="module")
def both(files: ModelFiles, cache_dir: Path) -> tuple[MiniLMEmbedder, MiniLMEmbedder]:
    return make(cache_dir=cache_dir), make(cache_dir=cache_dir, precision="int8")


def test_the_vectors_are_near_the_published_ones(both: tuple[MiniLMEmbedder, MiniLMEmbedder]) -> None:
    exact, small = (embed(embedder, *OWN_SENTENCES) for embedder in both)
    cosines = (exact * small).sum(axis=1)
    assert cosines.min() > 0.97
    assert cosines.mean() > 0.99
    assert cosines.max() < 0.99999, "these are other vectors"


def test_label_score_and_graph_are_its_own(
    both: tuple[MiniLMEmbedder, MiniLMEmbedder], files: ModelFiles, cache_dir: Path
) -> None:
    exact, small = both
    embed(exact, "tea"), embed(small, "tea")
    assert (exact.label, small.label) == ("all-MiniLM-L6-v2-fp32", "all-MiniLM-L6-v2-int8")
    assert small.score(0.15) != exact.score(0.15)
    assert exact._encoder is not small._encoder
    graphs = [minilm.graph_file(files, cache_dir, precision) for precision in ("fp32", "int8")]
    assert graphs[0] != graphs[1]
    minilm._open_session(files, cache_dir, 1, "int8")
    assert graphs[1].stat().st_size < 25_000_000


def test_weights_of_ones_own_have_a_label_of_their_own_and_no_calibration(files: ModelFiles, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    tensors = load_file(str(files.weights))
    tensors["embeddings.LayerNorm.bias"] = tensors["embeddings.LayerNorm.bias"] + np.float32(0.01)
    save_file(tensors, str(tmp_path / "model.safetensors"))
    (tmp_path / "tokenizer.json").symlink_to(files.tokenizer)
    tuned = make(path=tmp_path, precision="int8", cache_dir=tmp_path / "cache")
    assert tuned.label.startswith("all-MiniLM-L6-v2-int8-")
    assert tuned.score(0.324) == 0.324
    assert embed(tuned, "tea").shape == (1, 384)
    assert make(path=copy_model(files, tmp_path / "same"), precision="int8").label == "all-MiniLM-L6-v2-int8"


def test_a_graph_of_ones_own_is_not_made_int8(files: ModelFiles, tmp_path: Path) -> None:
    later = make(path=tmp_path, precision="int8", cache_dir=tmp_path / "cache")
    (tmp_path / "model.onnx").write_bytes(b"a graph")
    (tmp_path / "tokenizer.json").symlink_to(files.tokenizer)
    with pytest.raises(ConfigError, match="model.safetensors") as caught:
        make(path=tmp_path, precision="int8")
    assert caught.value.field == "embedder.config.precision"
    with pytest.raises(ConfigError, match="model.safetensors"):
        embed(later, "tea")


def test_a_row_of_zeros_and_a_column_of_zeros_stay_zeros(files: ModelFiles) -> None:
    """A tensor that was pruned to nothing must not divide by nothing."""
    weights = {name: tensor.copy() for name, tensor in read_weights(files.weights).items()}
    weights["embeddings.word_embeddings.weight"][100:200] = 0
    weights["encoder.layer.0.output.dense.weight"][5] = 0
    weights["encoder.layer.3.attention.self.value.weight"][:] = 0
    weights["encoder.layer.3.attention.self.value.bias"][:] = 0
    found = []
    for precision in ("fp32", "int8"):
        session = minilm.start_session("minilm", build_graph(weights, precision), 1)
        found.append(minilm.Encoder(session, files.tokenizer).run([[101, 150, 2000, 102]])[0])
    assert np.isfinite(found[1]).all()
    assert found[0] @ found[1] > 0.98


def config(path: Path, **embedder: Any) -> dict[str, Any]:
    return {"path": str(path), "embedder": {"provider": "minilm", "config": embedder}}


def test_a_collection_has_vectors_of_one_kind_until_it_is_embedded_anew(
    both: tuple[MiniLMEmbedder, MiniLMEmbedder], tmp_path: Path
) -> None:
    exact, small = (embed(embedder, "User likes tea")[0] for embedder in both)
    with Memory(config(tmp_path)) as memory:
        memory.add("User likes tea", user_id="ann", infer=False)
    with pytest.raises(ConfigError, match="'all-MiniLM-L6-v2-fp32'.*'all-MiniLM-L6-v2-int8'.*perdure reindex"):
        Memory(config(tmp_path, precision="int8"))

    async def go() -> None:
        engine = build(read_config(config(tmp_path, precision="int8")), any_embedder=True)
        try:
            await reindex(engine)
        finally:
            await engine.close()

    asyncio.run(go())
    with pytest.raises(ConfigError, match="'all-MiniLM-L6-v2-int8'.*'all-MiniLM-L6-v2-fp32'"):
        Memory(config(tmp_path))
    with Memory(config(tmp_path, precision="int8")) as memory:
        (found,) = memory.search("User likes tea", user_id="ann", preset="plain").results
        assert found.similarity == pytest.approx(1.0, abs=1e-4), f"with the old vector {exact @ small}"
    assert exact @ small < 0.9995
