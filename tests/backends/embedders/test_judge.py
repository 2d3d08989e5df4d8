"""The judge: two texts read together, on the encoder's own lower layers."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.backends.embedders import _minilm_judge as judge_module
from perdure.backends.embedders import minilm
from perdure.backends.embedders._minilm_judge import TRAINED, Embeddings, Judge, trained_weights
from perdure.backends.embedders.minilm import MiniLMEmbedder, ModelFiles, find_model, read_weights, shared_judge
from perdure.domain.errors import EmbeddingError

CHANGED = [
    ("Actually my dentist is Dr Amsel now", "User's dentist is Dr Koch"),
    ("The standup is at 10:15 from Monday on", "The standup is at 9:30"),
    ("sold the van, we cycle now", "User has a van"),
]
BOTH_HOLD = [
    ("User's brother lives in Munich", "User lives in Berlin"),
    ("The other team's standup is at 10:15", "The standup is at 9:30"),
    ("User's dog is called Rex", "User has a van"),
]


@pytest.fixture(scope="module")
def files() -> ModelFiles:
    found = find_model(None, None)
    assert found is not None, "the weights package is installed for tests"
    return found


@pytest.fixture(scope="module")
def judge(files: ModelFiles, tmp_path_factory: pytest.TempPathFactory) -> Judge:
    return shared_judge(files, tmp_path_factory.mktemp("judge"), 1)


def test_changes_are_likelier_than_what_holds_beside(judge: Judge) -> None:
    changed = judge.relations(CHANGED)
    beside = judge.relations(BOTH_HOLD)
    assert all(each.replaces > 0.4 for each in changed), changed
    assert not any(each.replaces > 0.4 for each in beside), beside


def test_the_shares_of_a_relation_sum_to_one(judge: Judge) -> None:
    for relation in judge.relations([*CHANGED, *BOTH_HOLD]):
        shares = (relation.replaces, relation.same, relation.refines, relation.beside, relation.unrelated)
        assert sum(shares) == pytest.approx(1, abs=1e-5)
        assert min(shares) >= 0


def test_what_says_something_is_worth_more_than_chatter(judge: Judge) -> None:
    told, chatter = judge.worth("sentence", [("I'm allergic to penicillin", ""), ("haha ok thanks", "")])
    assert told > chatter
    right, glued = judge.worth(
        "fact",
        [
            ("User is allergic to penicillin", "btw I'm allergic to penicillin"),
            ("User's btw is allergic", "btw I'm allergic to penicillin"),
        ],
    )
    assert right > glued


def test_nothing_asked_is_nothing_told(judge: Judge) -> None:
    assert judge.relations([]) == []
    assert judge.worth("fact", []) == []


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.text(max_size=400), st.text(max_size=400)), min_size=1, max_size=6))
def test_any_texts_are_judged_alike_alone_and_together(pairs: list[tuple[str, str]]) -> None:
    found = find_model(None, None)
    assert found is not None
    judge = shared_judge(found, None, 1) if (kept := _kept.get("judge")) is None else kept
    _kept["judge"] = judge
    together = judge.relations(pairs)
    alone = [judge.relations([pair])[0] for pair in pairs]
    assert [each.replaces for each in together] == pytest.approx([each.replaces for each in alone], abs=1e-3)


_kept: dict[str, Judge] = {}


def test_texts_longer_than_are_read_are_cut(judge: Judge) -> None:
    (long,) = judge.relations([("User lives in Berlin. " * 500, "User lives in Bonn. " * 500)])
    assert 0 <= long.replaces <= 1


def test_the_word_table_is_the_files_own(files: ModelFiles) -> None:
    table, weights = Embeddings.read(files.weights), read_weights(files.weights)
    assert np.array_equal(table.words.astype(np.float32), weights["embeddings.word_embeddings.weight"])
    types = weights["embeddings.token_type_embeddings.weight"][0]
    assert np.allclose(table.places, weights["embeddings.position_embeddings.weight"] + types)


@pytest.mark.parametrize("header", [b"{", b"{}", b'{"embeddings.word_embeddings.weight": {"dtype": "F16"}}'])
def test_a_file_without_a_word_table_is_an_embedding_error(tmp_path: Path, header: bytes) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(EmbeddingError, match=r"model\.safetensors has no word table"):
        Embeddings.read(file)


def test_the_trained_layers_are_the_upper_three_in_whole_numbers() -> None:
    file = Path(judge_module.__file__).parent / TRAINED
    assert file.stat().st_size < 6_000_000
    layers = {name.split(".")[2] for name in trained_weights() if name.startswith("encoder.")}
    assert layers == {"3", "4", "5"}
    with np.load(file) as stored:
        matrices = [stored[name] for name in stored.files if name.endswith("dense.weight")]
    assert matrices and all(matrix.dtype == np.int8 for matrix in matrices)


def test_a_damaged_graph_is_built_again(
    files: ModelFiles, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(minilm, "_judges", {})
    shared_judge(files, tmp_path, 1)
    (graph,) = tmp_path.glob("*judge*.onnx")
    size = graph.stat().st_size
    graph.write_bytes(b"half")
    monkeypatch.setattr(minilm, "_judges", {})
    with caplog.at_level(logging.WARNING, logger="perdure"):
        again = shared_judge(files, tmp_path, 1)
    assert "damaged" in caplog.text
    assert again.relations(CHANGED[:1])[0].replaces > 0.4
    assert graph.stat().st_size == size


def test_it_is_loaded_once_for_all_and_needs_our_own_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (MiniLMEmbedder(MiniLMEmbedder.Settings(cache_dir=tmp_path)) for _ in range(2))
    assert first.judge() is second.judge() is not None
    monkeypatch.setattr(minilm, "find_model", lambda *_: ModelFiles(tmp_path / "model.onnx", tmp_path / "t.json"))
    assert MiniLMEmbedder(MiniLMEmbedder.Settings(cache_dir=tmp_path)).judge() is None


def test_another_embedder_has_no_judge() -> None:
    from perdure.backends.registry import build

    assert build("embedders", "hashed", json.loads("{}")).judge() is None
