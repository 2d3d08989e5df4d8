"""Hugging Face's embedder on a folder: real graphs, run here, against vectors that were made another way."""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perdure import Memory
from perdure.backends.embedders import huggingface
from perdure.backends.embedders.huggingface import HuggingFaceEmbedder
from perdure.backends.embedders.minilm import MiniLMEmbedder, ModelFiles, find_model
from perdure.backends.extras import extra_line
from perdure.backends.registry import build
from perdure.domain.errors import ConfigError, DependencyError, EmbeddingError
from tests.backends.embedders.minilm_numpy import forward
from tests.backends.embedders.onnx_folders import (
    MODULES,
    TABLE,
    by_hand,
    minilm_folder,
    tiny_folder,
    tiny_graph,
    tiny_tokenizer,
)
from tests.backends.embedders.test_minilm import OWN_SENTENCES

MEAN = {"word_embedding_dimension": 6, "pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}
CLS = {"word_embedding_dimension": 6, "pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}
TEXT, IDS = "User likes tea and Lisbon", [2, 4, 5, 6, 7, 9, 3]
LONG = [2, 4, 5, 6, 7, 8, 3]


def make(path: Path, **config: Any) -> HuggingFaceEmbedder:
    return build("embedders", "huggingface", {"path": str(path), **config})


def embed(path: Path, *texts: str, **config: Any) -> np.ndarray:
    return asyncio.run(make(path, **config).embed_batch(texts))


def refused(path: Path, words: str, **config: Any) -> ConfigError:
    with pytest.raises(ConfigError, match=words) as caught:
        make(path, **config)
    return caught.value


def fails(path: Path, words: str) -> None:
    with pytest.raises(EmbeddingError, match=words):
        embed(path, TEXT)


# ------------------------------------------------------------------ the published model
@pytest.fixture(scope="module")
def files() -> ModelFiles:
    found = find_model(None, None)
    if found is None or found.is_graph:
        pytest.skip("the weights package perdure-minilm is not installed")
    return found


@pytest.fixture(scope="module", params=[False, True], ids=["sentence vectors", "token states"])
def minilm(request: pytest.FixtureRequest, files: ModelFiles, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return minilm_folder(tmp_path_factory.mktemp("folder") / "model", files, states=request.param)


def test_the_vectors_of_the_published_model_are_minilms(minilm: Path, files: ModelFiles, cache_folder: Path) -> None:
    texts = [*OWN_SENTENCES, *(f"User has {number} dogs and lives in Lisbon" for number in range(20))]
    vectors = embed(minilm, *texts)
    own = asyncio.run(MiniLMEmbedder(MiniLMEmbedder.Settings(cache_dir=cache_folder)).embed_batch(texts))
    assert vectors.shape == (28, 384)
    assert vectors.dtype == np.float32
    assert np.allclose(vectors, own, atol=1e-6)
    assert np.allclose(vectors[:3], forward(files, texts[:3]), atol=1e-5)


def test_the_loop_goes_on_while_the_model_runs(minilm: Path) -> None:
    ticks = 0

    async def both() -> None:
        nonlocal ticks
        work = asyncio.ensure_future(make(minilm).embed_batch(["User likes tea in the morning " * 20] * 8))
        while not work.done():
            ticks += 1
            await asyncio.sleep(0)
        await work

    asyncio.run(both())
    assert ticks > 10


def test_a_memory_on_a_folder(minilm: Path, tmp_path: Path) -> None:
    config = {
        "path": str(tmp_path / "memory"),
        "embedder": {"provider": "huggingface", "config": {"path": str(minilm)}},
    }
    with Memory(config) as memory:
        memory.add("User likes Python", user_id="ann", infer=False)
        memory.add("User's sister has two dogs", user_id="ann", infer=False)
        assert memory.search("pets in the family", user_id="ann").results[0].memory == "User's sister has two dogs"


# ------------------------------------------------------------------ pooling, types, padding, length
@pytest.mark.parametrize(
    ("pooling", "way"),
    [
        (MEAN, "mean"),
        (CLS, "cls"),
        (None, "mean"),
        ({"pooling_mode": "cls"}, "cls"),
        ({"pooling_mode": "mean", "include_prompt": True}, "mean"),
    ],
)
def test_pooling_is_the_folders(tmp_path: Path, pooling: dict[str, Any] | None, way: str) -> None:
    """Also of texts of different lengths in one run, in which the shorter are padded."""
    folder = tiny_folder(tmp_path, pooling=pooling)
    vectors = embed(folder, "tea", TEXT, "coffee and tea")
    expected = [by_hand([2, 6, 3], way), by_hand(IDS, way), by_hand([2, 8, 7, 6, 3], way)]
    assert np.allclose(vectors, expected, atol=1e-6)
    assert not np.allclose(by_hand(IDS, "mean"), by_hand(IDS, "cls"), atol=1e-2)


def test_the_pooling_module_may_lie_elsewhere(tmp_path: Path) -> None:
    modules = [MODULES[0], {**MODULES[1], "path": "pooling"}]
    folder = tiny_folder(tmp_path, pooling=MEAN, modules=modules)
    (folder / "1_Pooling").rename(folder / "pooling")
    (folder / "pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    assert np.allclose(embed(folder, TEXT), [by_hand(IDS, "cls")], atol=1e-6)


def test_token_types_are_given_only_where_the_graph_asks(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path, graph=tiny_graph(types=False), pooling=MEAN)
    assert np.allclose(embed(folder, TEXT), [by_hand(IDS, "mean", types=False)], atol=1e-6)


def test_a_graph_of_32_bit_numbers(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path, graph=tiny_graph(kind="int32"), pooling=CLS)
    assert np.allclose(embed(folder, TEXT), [by_hand(IDS, "cls")], atol=1e-6)


@pytest.mark.parametrize("name", ["sentence_embedding", "embedding"])
def test_a_graph_that_pools_itself(tmp_path: Path, name: str) -> None:
    folder = tiny_folder(tmp_path, graph=tiny_graph(pooled=True, output=name), pooling=MEAN)
    assert np.allclose(embed(folder, TEXT), [by_hand(IDS, "cls")], atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "tokens"),
    [
        ({}, 512),
        ({"tokenizer": tiny_tokenizer(most=7)}, 7),
        ({"config": {"hidden_size": 6, "max_position_embeddings": 9}}, 9),
        ({"config": {"hidden_size": 6, "max_position_embeddings": 9, "model_type": "roberta", "pad_token_id": 1}}, 7),
        ({"tokenizer_config": {"model_max_length": 8}, "tokenizer": tiny_tokenizer(most=7)}, 8),
        ({"tokenizer_config": {"model_max_length": 10**30}}, 512),
        ({"sentence_bert_config": {"max_seq_length": 6}, "tokenizer_config": {"model_max_length": 8}}, 6),
        ({"sentence_bert_config": {"max_seq_length": 60}, "config": {"dim": 6, "max_position_embeddings": 9}}, 9),
    ],
)
def test_as_much_is_read_as_the_folder_says(tmp_path: Path, settings: dict[str, Any], tokens: int) -> None:
    folder = tiny_folder(tmp_path, pooling=MEAN, **settings)
    read = [2, *[6] * (tokens - 2), 3]
    words = " ".join(["tea"] * (tokens - 2))
    found = embed(folder, words, f"{words} coffee lisbon")
    assert np.allclose(found, [by_hand(read, "mean")] * 2, atol=1e-6)


@pytest.mark.parametrize(
    "settings",
    [
        {"config": {"hidden_size": 6, "pad_token_id": 9}},
        {"tokenizer": tiny_tokenizer(padding=9)},
        {"config": {"hidden_size": 6, "pad_token_id": 9}, "tokenizer": tiny_tokenizer(padding=0)},
    ],
)
def test_padding_is_the_folders(tmp_path: Path, settings: dict[str, Any]) -> None:
    """A graph that knows padding by its number would take another number for a word."""
    folder = huggingface.read_folder(tiny_folder(tmp_path, pooling=CLS, graph=tiny_graph(padding=9), **settings))
    encoder = huggingface.load_encoder(folder, 1)
    assert np.allclose(encoder.run([[2, 6, 3], LONG]), [by_hand([2, 6, 3], "cls"), by_hand(LONG, "cls")], atol=1e-6)


def test_a_tokenizer_without_special_tokens_and_an_empty_text(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path, pooling=MEAN, tokenizer=tiny_tokenizer(special=False))
    assert np.allclose(embed(folder, "", "tea"), [by_hand([0], "mean"), by_hand([6], "mean")], atol=1e-6)


@pytest.mark.parametrize("text", ["a\x00b", "before \ud800 after", "\udcff", " \n", "世界 🚴", "tea " * 5_000])
def test_any_text_has_a_vector(tmp_path: Path, text: str) -> None:
    vector = embed(tiny_folder(tmp_path), text)
    assert abs(np.linalg.norm(vector) - 1) < 1e-6


# ------------------------------------------------------------------ the label
def test_the_label_follows_what_the_vectors_depend_on(tmp_path: Path) -> None:
    labels = [
        make(tiny_folder(tmp_path / "a", pooling=MEAN)).label,
        make(tiny_folder(tmp_path / "b", pooling=CLS)).label,
        make(tiny_folder(tmp_path / "c", pooling=MEAN, graph=tiny_graph(table=TABLE * 2))).label,
        make(tiny_folder(tmp_path / "d", pooling=MEAN, tokenizer=tiny_tokenizer(special=False))).label,
        make(tiny_folder(tmp_path / "e", pooling=MEAN, tokenizer_config={"model_max_length": 8})).label,
    ]
    assert len(set(labels)) == 5
    assert all(label.startswith("huggingface-") and label.endswith("-6") for label in labels)
    shutil.copytree(tmp_path / "a", tmp_path / "moved")
    assert make(tmp_path / "moved", threads=2, model="any/name").label == labels[0]
    (tmp_path / "moved" / "model.onnx_data").write_bytes(b"weights beside the graph")
    assert make(tmp_path / "moved").label not in labels


# ------------------------------------------------------------------ folders that cannot be used
def test_a_folder_that_is_not_complete(tmp_path: Path) -> None:
    assert (
        refused(tmp_path / "none", r"embedder\.config\.path: .*none holds no tokenizer\.json").field
        == "embedder.config.path"
    )
    for missing, words in (
        ("model.onnx", "holds no"),
        ("tokenizer.json", "holds no"),
        ("config.json", "cannot be read"),
    ):
        folder = tiny_folder(tmp_path / missing)
        (folder / missing).unlink()
        refused(folder, words)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"config": {}}, "no hidden_size"),
        ({"config": {"hidden_size": "six"}}, "no hidden_size"),
        ({"config": [1]}, "holds no settings"),
        ({"pooling": {"pooling_mode_max_tokens": True}}, "pools by max_tokens"),
        ({"pooling": {"pooling_mode_lasttoken": True}}, "pools by lasttoken"),
        ({"pooling": {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}}, "pools by cls and mean"),
        ({"pooling": {"pooling_mode": ["mean", "max"]}}, "pools by max and mean"),
        ({"modules": [*MODULES, {"type": "sentence_transformers.models.Dense", "path": "2_Dense"}]}, "module Dense"),
        ({"modules": {"no": "list"}}, "no list of modules"),
    ],
)
def test_settings_that_cannot_be_followed(tmp_path: Path, settings: dict[str, Any], words: str) -> None:
    refused(tiny_folder(tmp_path, **settings), words)


def test_settings_that_are_no_json(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path)
    (folder / "config.json").write_bytes(b'{"hidden_size": \xff')
    refused(folder, r"config\.json is no JSON")


def test_a_dimension_that_is_not_the_folders(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path)
    assert refused(folder, "gives exactly 6, not 3", dimensions=3).field == "embedder.config.dimensions"
    assert make(folder, dimensions=6).dimension == 6


def test_a_folder_and_an_address_exclude_each_other(tmp_path: Path) -> None:
    refused(tiny_folder(tmp_path), "exclude each other", base_url="http://box")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"graph": b"no graph"}, "could not be loaded"),
        ({"tokenizer": "{}"}, "no readable tokenizer"),
        ({"graph": tiny_graph(extra_input="position_ids")}, "asks for position_ids"),
        ({"graph": tiny_graph(output="logits")}, "has no sentence_embedding or"),
        ({"config": {"hidden_size": 5}}, "of 5 numbers"),
        ({"graph": tiny_graph(table=TABLE * np.nan)}, "without a direction"),
        ({"graph": tiny_graph(table=TABLE[:3])}, "could not be run"),
    ],
)
def test_files_that_cannot_be_run(tmp_path: Path, settings: dict[str, Any], words: str) -> None:
    folder = tiny_folder(tmp_path, **settings)
    fails(folder, words)


# ------------------------------------------------------------------ loading
def test_nothing_is_loaded_before_it_is_used_and_then_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    original = huggingface.load_encoder

    def count(folder: Any, threads: int) -> Any:
        loaded.append(str(folder.graph))
        return original(folder, threads)

    monkeypatch.setattr("perdure.backends.embedders.huggingface.load_encoder", count)
    embedder = make(tiny_folder(tmp_path, pooling=MEAN))
    assert asyncio.run(embedder.embed_batch([])).shape == (0, 6)
    assert embedder.unavailable() is None
    assert not loaded
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: asyncio.run(embedder.embed(TEXT)), range(32)))
    assert np.allclose(found, [by_hand(IDS, "mean")] * 32, atol=1e-6)
    assert len(loaded) == 1
    asyncio.run(embedder.close())
    asyncio.run(embedder.close())
    assert np.allclose(asyncio.run(embedder.embed(TEXT)), by_hand(IDS, "mean"), atol=1e-6)
    assert len(loaded) == 2


def test_missing_drivers_are_told_with_the_pip_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = make(tiny_folder(tmp_path))
    with monkeypatch.context() as patched:
        patched.setattr("perdure.backends.embedders.huggingface.find_spec", lambda name: None)
        assert embedder.unavailable() == f"huggingface needs onnxruntime and tokenizers: {extra_line('huggingface')}"
    for driver in ("tokenizers", "onnxruntime"):
        with monkeypatch.context() as patched:
            patched.setitem(sys.modules, driver, None)
            with pytest.raises(DependencyError, match=re.escape(extra_line("huggingface"))):
                asyncio.run(embedder.embed("tea"))
