"""The cross-encoder that runs here: a tiny model whose logit can be counted by hand."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from perdure.backends.extras import extra_line
from perdure.backends.registry import build
from perdure.backends.rerankers import cross_encoder
from perdure.backends.rerankers.cross_encoder import DEFAULT, CrossEncoderReranker
from perdure.domain.errors import ConfigError, DependencyError, RerankerError
from tests.backends.rerankers.rerank_folders import SPECIAL, WORDS, by_hand, tiny_folder, tiny_graph, tiny_tokenizer

pytestmark = pytest.mark.covers("A15", "K28", "U21")

TEXTS = ["user likes tea", "a dog in berlin", "", "user works at the bakery", "tea and coffee and tea"]

words = st.integers(0, 40).flatmap(
    lambda count: st.lists(st.sampled_from(WORDS[SPECIAL:]), min_size=count, max_size=count)
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("tiny"))


def make(folder: Path, **config: Any) -> CrossEncoderReranker:
    built: CrossEncoderReranker = build("rerankers", "cross_encoder", {"path": folder, **config})
    return built


def score(folder: Path, query: str, texts: Sequence[str], **config: Any) -> list[float]:
    return asyncio.run(make(folder, **config).rerank(query, texts))


def fails(folder: Path, match: str) -> RerankerError:
    with pytest.raises(RerankerError, match=match) as caught:
        score(folder, "tea", ["tea"])
    assert caught.value.code == "reranker_error"
    return caught.value


# ------------------------------------------------------------------ what a score is
@pytest.mark.covers("K28")
def test_a_score_is_the_models_logit_of_query_and_text(folder: Path) -> None:
    assert score(folder, "user likes tea", TEXTS) == [by_hand("user likes tea", text) for text in TEXTS]


@pytest.mark.covers("A15")
@pytest.mark.parametrize(
    "graph", [{"types": False}, {"kind": "int32"}, {"logits": 2}, {"output": "score"}, {"scale": -100.0}]
)
def test_inputs_and_outputs_are_the_graphs_own(tmp_path: Path, graph: dict[str, Any]) -> None:
    tiny_folder(tmp_path, graph=tiny_graph(**graph))
    expected = [graph.get("scale", 1.0) * by_hand("user likes tea", text) for text in TEXTS]
    assert score(tmp_path, "user likes tea", TEXTS) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("output", ["logits", "score"])
def test_another_output_beside_the_logits_is_not_read(tmp_path: Path, output: str) -> None:
    tiny_folder(tmp_path, graph=tiny_graph(output=output, extra_output="states"))
    assert score(tmp_path, "tea", TEXTS) == [by_hand("tea", text) for text in TEXTS]


def test_a_tokenizer_without_special_tokens_reads_even_nothing(tmp_path: Path) -> None:
    (tiny_folder(tmp_path) / "tokenizer.json").write_text(tiny_tokenizer(special=False), encoding="utf-8")
    assert [round(each) for each in score(tmp_path, "", ["", "tea"])] == [0, 0]
    assert [round(each) for each in score(tmp_path, "tea", ["", "tea"])] == [0, 1]


def test_case_and_scripts_are_the_tokenizers_matter(folder: Path) -> None:
    texts = ["USER LIKES TEA", "我 喜 欢 茶", "ГРЕТ", "tea\ud800 tea"]
    assert [round(each) for each in score(folder, "user 喜 茶 грет tea", texts)] == [2, 2, 1, 1]


@pytest.mark.covers("A15")
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=words, texts=st.lists(words, max_size=12))
@example(query=["tea"] * 20, texts=[["tea"] * count for count in (0, 3, 10, 20, 30)])
@example(query=["tea"] * 3, texts=[["tea"] * 30])
def test_a_long_pair_is_cut_the_longer_first(folder: Path, query: list[str], texts: list[list[str]]) -> None:
    asked, read = " ".join(query), [" ".join(text) for text in texts]
    found = score(folder, asked, read, max_length=16, batch_size=4)
    assert found == pytest.approx([by_hand(asked, text, 16) for text in read], abs=1e-6)


@pytest.mark.covers("A15")
def test_by_default_512_tokens_are_read(folder: Path) -> None:
    within, beyond = "dog " * 508 + "tea", "dog " * 509 + "tea"  # with [CLS], the query's word and two [SEP]: 513
    assert [round(each + 0.5) for each in score(folder, "tea", [within[4:], within, beyond])] == [1, 0, 0]


@pytest.mark.parametrize(
    ("config", "read"),
    [
        ({"max_position_embeddings": 20}, 20),
        ({"max_position_embeddings": 22, "model_type": "roberta", "pad_token_id": 1}, 20),
        ({"max_position_embeddings": 100}, 24),
        ({"max_position_embeddings": "20"}, 24),
        ({}, 24),
    ],
)
def test_a_model_with_few_positions_reads_no_more(tmp_path: Path, config: dict[str, Any], read: int) -> None:
    text = "dog " * 40
    found = score(tiny_folder(tmp_path, config=config), "tea", [text], max_length=24)
    assert found == [by_hand("tea", text, read)]


@pytest.mark.parametrize("content", ["", "[]", "7", "{"])
def test_a_config_that_says_nothing_is_done_without(tmp_path: Path, content: str) -> None:
    (tiny_folder(tmp_path) / "config.json").write_text(content, encoding="utf-8")
    assert score(tmp_path, "tea", TEXTS) == [by_hand("tea", text) for text in TEXTS]


# ------------------------------------------------------------------ what is missing or wrong
@pytest.mark.covers("A15")
@pytest.mark.parametrize("place", ["onnx/model.onnx", "model.onnx", "onnx/model_quantized.onnx"])
def test_the_graph_lies_under_onnx_or_at_the_root(tmp_path: Path, place: str) -> None:
    assert score(tiny_folder(tmp_path, place=place), "tea", TEXTS) == [by_hand("tea", text) for text in TEXTS]


@pytest.mark.covers("A15")
def test_full_precision_comes_before_quantized_and_the_folder_before_the_root(tmp_path: Path) -> None:
    for scale, place in ((3.0, "onnx/model_quantized.onnx"), (2.0, "model.onnx"), (1.0, "onnx/model.onnx")):
        tiny_folder(tmp_path, graph=tiny_graph(scale=scale), place=place)
        assert score(tmp_path, "tea", ["tea"]) == pytest.approx([scale * by_hand("tea", "tea")])


@pytest.mark.covers("U21")
@pytest.mark.parametrize("missing", ["tokenizer.json", "onnx/model.onnx"])
def test_a_missing_file_is_told_beforehand_in_one_sentence(tmp_path: Path, missing: str) -> None:
    (tiny_folder(tmp_path) / missing).unlink()
    reranker = make(tmp_path)
    reason = reranker.unavailable()
    assert reason is not None
    assert "tokenizer.json with onnx/model.onnx or model.onnx or onnx/model_quantized.onnx" in reason
    assert str(tmp_path) in reason
    with pytest.raises(DependencyError) as caught:
        asyncio.run(reranker.rerank("tea", ["tea"]))
    assert str(caught.value) == reason


@pytest.mark.covers("U21")
def test_without_a_download_the_command_that_makes_one_is_told(tmp_path: Path) -> None:
    reranker = build("rerankers", "cross_encoder", {"cache_dir": tmp_path})
    assert reranker.unavailable() == (
        f"cross_encoder finds no weights of {DEFAULT}: run `perdure init --download`, "
        "or set reranker.config.path to a folder that holds them"
    )
    assert list(tmp_path.iterdir()) == [], "nothing is fetched or made"


@pytest.mark.covers("A15")
def test_a_model_is_found_under_its_whole_name(tmp_path: Path) -> None:
    tiny_folder(tmp_path / "rerankers" / "one" / "model", graph=tiny_graph(scale=2.0))
    tiny_folder(tmp_path / "rerankers" / "two" / "model", graph=tiny_graph(scale=3.0))
    for model, scale in (("one/model", 2.0), ("two/model", 3.0)):
        reranker = build("rerankers", "cross_encoder", {"cache_dir": tmp_path, "model": model})
        assert reranker.unavailable() is None
        assert asyncio.run(reranker.rerank("tea", ["tea"])) == pytest.approx([scale * by_hand("tea", "tea")])


@pytest.mark.covers("U21")
@pytest.mark.parametrize("driver", ["onnxruntime", "tokenizers"])
def test_a_missing_driver_is_told_with_the_pip_line(folder: Path, monkeypatch: pytest.MonkeyPatch, driver: str) -> None:
    find = cross_encoder.importlib.util.find_spec
    monkeypatch.setattr(cross_encoder.importlib.util, "find_spec", lambda name: None if name == driver else find(name))
    reason = f"cross_encoder needs {driver}: {extra_line('cross_encoder')}"
    assert make(folder).unavailable() == reason
    with pytest.raises(DependencyError, match=driver):
        score(folder, "tea", ["tea"])


@pytest.mark.parametrize(
    ("graph", "match"),
    [
        (b"no graph", r"model\.onnx could not be loaded"),
        (tiny_graph(extra_input="pixel_values"), "asks for pixel_values, which is not known"),
        (tiny_graph(logits=3), "no output of one logit or two"),
        (tiny_graph(scale=float("nan")), "a logit that is no number"),
        (tiny_graph(scale=float("inf")), "a logit that is no number"),
    ],
)
def test_a_graph_that_is_no_cross_encoders_is_an_error_that_says_so(tmp_path: Path, graph: bytes, match: str) -> None:
    fails(tiny_folder(tmp_path, graph=graph), match)


def test_a_tokenizer_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tiny_folder(tmp_path) / "tokenizer.json").write_text("{}", encoding="utf-8")
    fails(tmp_path, r"tokenizer\.json is no readable tokenizer")


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"model": "../secrets"}, "model"),
        ({"model": "a/../../b"}, "model"),
        ({"model": "/etc"}, "model"),
        ({"model": "a/b/c"}, "model"),
        ({"model": ""}, "model"),
        ({"max_length": 8}, "max_length"),
        ({"batch_size": 0}, "batch_size"),
        ({"threads": 0}, "threads"),
        ({"modell": "x"}, "modell"),
    ],
)
def test_a_wrong_setting_is_named(config: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build("rerankers", "cross_encoder", config)
    assert caught.value.field == f"reranker.config.{field}"


def test_making_one_loads_neither_driver(folder: Path) -> None:
    probe = (
        "import sys; from perdure.backends.registry import build; "
        f"print(build('rerankers', 'cross_encoder', {{'path': {str(folder)!r}}}).unavailable()); "
        "print(sorted({'onnxruntime', 'tokenizers', 'httpx2'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert result.stdout.split("\n")[:2] == ["None", "[]"]


def test_the_tiny_tokenizer_frames_a_pair_as_BERT_does() -> None:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(tiny_tokenizer())
    tokenizer.no_padding()
    pair = tokenizer.encode("tea", "coffee and tea")
    assert pair.tokens == ["[CLS]", "tea", "[SEP]", "coffee", "and", "tea", "[SEP]"]
    assert pair.type_ids == [0, 0, 0, 1, 1, 1, 1]
