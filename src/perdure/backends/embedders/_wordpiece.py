"""BERT's tokenizer: text in, numbers of word pieces out, without a driver.

It gives what the package `tokenizers` gives for the same `tokenizer.json` (benchmarks/wordpiece.py compares them over
100,000 texts and every character), several times as fast, and without that package's client of a model hub.

What a character becomes does not depend on the others, so that a text is read in two steps of C: `str.translate` by a
table that fills as characters appear, and `split`. Words are then looked up, and cut greedily into the longest pieces
of the vocabulary (Wu et al. 2016, arXiv:1609.08144, section 4.1).
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from perdure.domain.errors import EmbeddingError

LONG_TEXT = 4096
"""Characters of which a longer text is read at first: they nearly always hold more tokens than are asked for."""
CUT = 128
"""Tokens beyond those asked for, within which the end of a cut text may differ from the whole: of a cut word at most
100 (`LONGEST`), of a cut special token fewer."""
LONGEST = 100  # characters of a word beyond which it is unknown; BERT's own number
KEPT = 20_000  # words whose pieces are remembered, and characters
_IDEOGRAPHS = re.compile(
    "[\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002a6df\U0002a700-\U0002b73f\U0002b740-\U0002b81f"
    "\U0002b920-\U0002ceaf\uf900-\ufaff\U0002f800-\U0002fa1f]"
)
"""Each is a word; 2B820 to 2B91F are not among them, as in the driver that other programs use for this model."""

_UNKNOWN = (
    "5C8-5C9 61D 7FD 890-891 897-89F 8CA-8E2 9FD-9FE A76 AFA-AFF B53-B55 C04 C3C C77 C84 D00 D3B-D3C D81 EBA ECE 180F "
    "1885-1886 1ABF-1AF0 1B4E-1B4F 1B7D-1B7F 1DF6-1DFB 2E43-2E4F 2E52-2E5D 2E60-2E63 A82C A8C5 A8FF A9BD 10D24-10D27 "
    "10D69-10D6E 10EAB-10EAD 10ECB-10ED0 10EF0-10EFF 10F46-10F50 10F55-10F59 10F82-10F89 11070 11073-11074 110C2 110CD "
    "111CF 1123E 11241 1133B 113BB-113C0 113CE 113D0 113D2 113D4-113D5 113D7-113D8 113E1-113E2 11438-1143F "
    "11442-11444 11446 1144B-1144F 1145A-1145B 1145D-1145E 11660-1166C 116B9 1182F-11837 11839-1183B 1193B-1193C 1193E "
    "11943-11946 119D4-119D7 119DA-119DB 119E0 119E2 11A01-11A0A 11A33-11A38 11A3B-11A47 11A51-11A56 11A59-11A5B "
    "11A8A-11A96 11A98-11A9C 11A9E-11AA2 11B00-11B09 11B60 11B62-11B64 11B66 11BE1 11C30-11C36 11C38-11C3D 11C3F "
    "11C41-11C45 11C70-11C71 11C92-11CA7 11CAA-11CB0 11CB2-11CB3 11CB5-11CB6 11D31-11D36 11D3A 11D3C-11D3D 11D3F-11D45 "
    "11D47 11D90-11D91 11D95 11D97 11DF0 11EF3-11EF4 11EF7-11EF8 11F00-11F01 11F36-11F3A 11F40 11F42-11F4F 11F5A 11FFF "
    "12FF1-12FF2 13430-13440 13447-13455 1611E-16129 1612D-1612F 16D6D-16D6F 16E97-16E9A 16F4F 16FE2 16FE4 1CF00-1CF2D "
    "1CF30-1CF46 1D127-1D128 1D25B-1D25C 1E000-1E006 1E008-1E018 1E01B-1E021 1E023-1E024 1E026-1E02A 1E08F 1E130-1E136 "
    "1E2AE 1E2EC-1E2EF 1E4EC-1E4EF 1E5EE-1E5EF 1E5FF 1E6E3 1E6E6 1E6EE-1E6EF 1E6F5 1E944-1E94A 1E95E-1E95F"
)
"""Marks, punctuation and invisible characters that Unicode got after its version 8, which the other driver's tables are
of: to it they are like letters. In hexadecimal, up to Unicode 18, so that Python's own version does not matter."""
_MOVED = {0x166D: " \u166d ", 0x111C9: " \U000111c9 ", 0x1734: "", 0x1171E: ""}
"""Characters of another kind since then: two that were punctuation, and two that were marks."""


def read_tokenizer(file: Path, most: int) -> Callable[[str], list[int]] | None:
    """Return a function from text to at most `most` numbers of tokens, [CLS] first and [SEP] last.

    None for a tokenizer of another kind than that of BERT without regard for case.
    """
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        model, normalizer = content["model"], content["normalizer"]
        vocabulary: dict[str, int] = model["vocab"]
        if (
            model.get("type", "WordPiece") != "WordPiece"
            or (model["continuing_subword_prefix"], model["max_input_chars_per_word"]) != ("##", LONGEST)
            or (normalizer["type"], content["pre_tokenizer"]["type"]) != ("BertNormalizer", "BertPreTokenizer")
            or not (normalizer["lowercase"] and normalizer["clean_text"] and normalizer["handle_chinese_chars"])
            or normalizer["strip_accents"] is False
        ):
            return None
        special = {each["content"]: int(each["id"]) for each in content["added_tokens"]}
        first, last = vocabulary["[CLS]"], vocabulary["[SEP]"]
        pieces = _Words(vocabulary, vocabulary[model["unk_token"]])
    except OSError as error:
        raise EmbeddingError(f"minilm: {file} is no readable tokenizer: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return _reader(pieces, special, first, last, most)


def _reader(
    pieces: Mapping[str, list[int]], special: Mapping[str, int], first: int, last: int, most: int
) -> Callable[[str], list[int]]:
    # Special tokens stand in a text as they are, and the longest of two that begin alike is meant.
    names = re.compile(f"({'|'.join(re.escape(name) for name in sorted(special, key=len, reverse=True))})")
    enough = most + CUT

    def read(text: str) -> list[int]:
        found: list[int] = []
        # An odd part is a special token. Most texts have none, and no bracket to look at.
        for number, part in enumerate(names.split(text) if special else [text]):
            if number % 2:
                found.append(special[part])
                continue
            for word in part.translate(CHARACTERS).split():
                found += pieces[word]
            if len(found) >= enough:
                break
        return found

    def tokenize(text: str) -> list[int]:
        size = LONG_TEXT
        ids = read(text[:size])
        while size < len(text) and len(ids) < enough:
            size *= 4
            ids = read(text[:size])
        return [first, *ids[: most - 2], last]

    return tokenize


class _Words(dict[str, list[int]]):
    """The pieces of each word, found when it is first met."""

    def __init__(self, vocabulary: Mapping[str, int], unknown: int) -> None:
        super().__init__()
        self._vocabulary = vocabulary
        self._unknown = [unknown]

    def __missing__(self, word: str) -> list[int]:
        if len(word) > LONGEST:
            return self._unknown
        if len(self) >= KEPT:
            self.clear()
        found = self[word] = self._cut(word)
        return found

    def _cut(self, word: str) -> list[int]:
        found: list[int] = []
        start = 0
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = word[start:end] if start == 0 else f"##{word[start:end]}"
                if piece in self._vocabulary:
                    break
            else:
                return self._unknown
            found.append(self._vocabulary[piece])
            start = end
        return found


class _Characters(dict[int, str]):
    """What each character becomes: nothing, blank, lower case without accents, or a word of its own.

    Characters, their kinds and order are those of BertNormalizer and BertPreTokenizer.
    """

    def __missing__(self, code: int) -> str:
        if len(self) >= KEPT:
            self.clear()
        found = self[code] = _read_character(chr(code))
        return found


def _read_character(character: str) -> str:
    if (moved := _MOVED.get(ord(character))) is not None:
        return moved
    kind = unicodedata.category(character)
    if character in "\t\n\r" or (character.isspace() and kind[0] == "Z"):
        return " "
    if kind == "Cn" or ord(character) in _LETTERS:
        found = character
    elif kind[0] == "C" or character == "\ufffd":
        return ""
    else:
        found = "".join(_plain(each) for each in unicodedata.normalize("NFD", character))
    return f" {found} " if _IDEOGRAPHS.match(character) else found


def _plain(character: str) -> str:
    kind = unicodedata.category(character)
    if kind == "Mn":
        return ""
    if kind[0] == "P" or (kind[0] == "S" and character.isascii()):
        return f" {character} "
    return character.lower()


def _codes(ranges: str) -> frozenset[int]:
    pairs = [tuple(int(each, 16) for each in part.split("-")) for part in ranges.split()]
    return frozenset(code for pair in pairs for code in range(pair[0], pair[-1] + 1))


_LETTERS = _codes(_UNKNOWN)
CHARACTERS: Mapping[Any, str] = _Characters()
