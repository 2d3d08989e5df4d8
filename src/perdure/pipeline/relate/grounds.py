"""What a role is held of and a verb leads to: a name, or what a team writes in small letters ("the launch team")."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from perdure.domain.graph import DEFAULT_TYPE
from perdure.domain.pattern import Pattern
from perdure.pipeline.relate.names import NAME, lines, table, trimmed, type_of

_ARTICLE = Pattern(r"^(?:the|our|their|its|his|her|my|a|an|this|that)\s+(?:new |whole |entire )?", re.IGNORECASE)
_DOING = Pattern(r"[a-z]{4,}ing")
_PLAIN = r"[a-z0-9][\w&+'’-]*"


@dataclass(frozen=True, slots=True)
class Thing:
    """An entity as a text writes it."""

    name: str
    type: str


def read_thing(words: str, expected: str = "-") -> Thing | None:
    """The thing that words name, None where they name none: "the fundraising project" is the project "fundraising"."""
    bare = _ARTICLE.sub("", words.strip(" ,."))
    had_article = bare != words.strip(" ,.")
    for ground, (kind, keep) in _grounds().items():
        rest = bare.removesuffix(ground).rstrip()
        if rest == bare or (bare[: -len(ground)] and not bare[: -len(ground)].endswith(" ")):
            continue
        if not rest or not _is_plain_or_name(rest):
            return None  # "the project": which one?
        return Thing(bare if keep else rest, kind)
    name = re.fullmatch(NAME, bare)
    if name is not None:
        clean = trimmed(bare)
        return Thing(clean, type_of(clean, "-" if expected == "ground" else expected)) if clean else None
    if expected == "ground" and not had_article and (bare in lines("plain_grounds.txt") or _DOING.fullmatch(bare)):
        return Thing(bare, DEFAULT_TYPE)  # "leads fundraising"
    return None


def head(words: str) -> str:
    """What of the words after a verb can be its object: up to the first that goes on with something else."""
    return _ONWARD.split(words, maxsplit=1)[0].strip(" ,.")


_ONWARD = Pattern(
    r"\s*(?:[,;:()]|\s[-–—]\s)|\s+(?:as|with|and|in|on|for|where|which|who|because|to|at|by|from|but|while|after|"
    r"before|together|remotely|full-time|part-time|now|again|too|so|along|alongside|via|under|over|during|when|than|"
    r"currently|these days|anymore|any more|any longer)(?=\s|$|[,.;])"
)


def _is_plain_or_name(words: str) -> bool:
    return re.fullmatch(rf"(?:{NAME}|{_PLAIN})(?: (?:{NAME}|{_PLAIN})){{0,2}}", words) is not None


@cache
def _grounds() -> dict[str, tuple[str, bool]]:
    """Word to its type and whether it is part of the name, longest first."""
    rows = sorted(table("grounds.tsv"), key=lambda row: -len(row[0]))
    return {word: (kind.split()[0], kind.endswith(" keep")) for word, kind in rows}
