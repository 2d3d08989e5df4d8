"""Our WordPiece gives what the package `tokenizers` gives; benchmarks/wordpiece.py compares 100,000 texts."""

from __future__ import annotations

import json
import random
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.backends.embedders import _wordpiece as ours_module
from perdure.backends.embedders import minilm
from perdure.backends.embedders._wordpiece import read_tokenizer
from perdure.backends.embedders.minilm import MAX_TOKENS, find_model
from perdure.backends.extras import extra_line
from perdure.domain.errors import DependencyError, EmbeddingError
from tests.benchmarks import load

benchmark = load("wordpiece")
ROOT = Path(__file__).parents[3]
FOUND = find_model(None, None)
assert FOUND is not None, "the weights package is installed for tests"
FILE = FOUND.tokenizer
OURS, THEIRS = benchmark.both(FILE)


def test_texts_of_this_repository_and_mixtures_have_the_same_tokens() -> None:
    seeds = benchmark.lines([ROOT / "docs", ROOT / "benchmarks" / "data", ROOT / "tests" / "frontends" / "mcp"])
    count, found = benchmark.unequal(OURS, THEIRS, benchmark.texts(seeds, 6_000, random.Random(7)))
    assert (count, found) == (6_000, [])


def test_characters_have_the_same_tokens_whatever_unicode_python_knows() -> None:
    known = [*ours_module._LETTERS, *ours_module._MOVED, *range(0x3100), *range(0xF900, 0x10000)]
    texts = (f"x{chr(code)}y {chr(code)} a{chr(code)}" for code in known)
    assert benchmark.unequal(OURS, THEIRS, texts)[1] == []
    assert benchmark.unequal(OURS, THEIRS, islice(benchmark.characters(), 0x10000, None, 101))[1] == []


@given(st.text(max_size=200))
def test_any_text_has_the_same_tokens(text: str) -> None:
    assert OURS(text) == THEIRS(text)


@pytest.mark.parametrize(
    "unit",
    ["river ", "我喜欢", "a" * 99, "a" * 100, "a" * 101 + " ", "!?", " \n", "e\u0301", "[MASK]", "[CLS", "\u200d", "ﬁ"],
)
@pytest.mark.parametrize("length", [4_090, 4_096, 4_097, 20_000])
def test_a_text_that_is_cut_has_the_tokens_of_the_whole(unit: str, length: int) -> None:
    text = (unit * (length // len(unit) + 1))[:length]
    assert OURS(text) == THEIRS(text)
    assert len(OURS(text)) <= MAX_TOKENS


def test_what_is_remembered_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ours_module, "KEPT", 50)
    tokenize = read_tokenizer(FILE, MAX_TOKENS)
    assert tokenize is not None
    for number in range(1_000):
        text = f"word{number} {chr(0x4E00 + number)} {'x' * (101 + number)}"
        assert tokenize(text) == THEIRS(text)
    assert len(ours_module.CHARACTERS) <= 50
    words = next(
        cell.cell_contents
        for function in (each.cell_contents for each in tokenize.__closure__ or () if callable(each.cell_contents))
        for cell in function.__closure__ or ()
        if isinstance(cell.cell_contents, ours_module._Words)
    )
    assert len(words) <= 50
    assert all(len(word) <= ours_module.LONGEST for word in words)


def changed(tmp_path: Path, **parts: Any) -> Path:
    content = json.loads(FILE.read_text(encoding="utf-8"))
    for name, values in parts.items():
        content[name] = {**content[name], **values} if isinstance(values, dict) else values
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(content), encoding="utf-8")
    return file


@pytest.mark.parametrize(
    "parts",
    [
        {"normalizer": {"lowercase": False}},
        {"normalizer": {"strip_accents": False}},
        {"normalizer": {"type": "NFC"}},
        {"pre_tokenizer": {"type": "Whitespace"}},
        {"model": {"continuing_subword_prefix": "@@"}},
        {"model": {"max_input_chars_per_word": 20}},
    ],
)
def test_a_tokenizer_of_another_kind_is_left_to_the_driver(tmp_path: Path, parts: dict[str, Any]) -> None:
    file = changed(tmp_path, **parts)
    assert read_tokenizer(file, MAX_TOKENS) is None
    if parts != {"normalizer": {"type": "NFC"}}:
        from tokenizers import Tokenizer

        driver = Tokenizer.from_file(str(file))
        driver.no_padding()
        driver.no_truncation()
        assert minilm._load_tokenizer(file)("Ünïcode für Übung") == driver.encode("Ünïcode für Übung").ids


@pytest.mark.parametrize("unit", ["river budget ", "a" * 150 + " ", "9" * 99])
def test_the_driver_too_reads_a_huge_text_from_its_beginning(tmp_path: Path, unit: str) -> None:
    cased = minilm._load_tokenizer(changed(tmp_path, normalizer={"strip_accents": False}))
    assert cased(unit * (60_000 // len(unit))) == THEIRS(unit * (60_000 // len(unit)))


def test_without_the_driver_another_kind_is_a_missing_dependency(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert minilm._load_tokenizer(FILE)("tea") == THEIRS("tea")
    with pytest.raises(DependencyError) as caught:
        minilm._load_tokenizer(changed(tmp_path, normalizer={"lowercase": False}))
    assert extra_line("huggingface") in str(caught.value)


def test_a_file_that_cannot_be_read_is_an_embedding_error(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingError, match=r"tokenizer\.json"):
        read_tokenizer(tmp_path / "tokenizer.json", MAX_TOKENS)
    (tmp_path / "tokenizer.json").write_bytes(b"\xff\xfe")
    assert read_tokenizer(tmp_path / "tokenizer.json", MAX_TOKENS) is None
