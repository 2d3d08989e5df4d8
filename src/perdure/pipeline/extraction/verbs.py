"""English verbs: which form a word is, and the form that a third person takes.

Forms are derived from two word lists by the spelling rules of regular verbs (final e dropped, y to i, the last
consonant doubled after a single stressed vowel); a word outside the lists is never called a verb.
"""

from __future__ import annotations

from functools import cache

from perdure.pipeline import lexicon
from perdure.pipeline.extraction.wordsets import word_set

VOWELS = "aeiou"

BE = {"am": "is", "are": "is", "is": "is", "was": "was", "were": "was", "be": "is"}
AGREEMENT = {
    **BE,
    "aren't": "isn't",
    "weren't": "wasn't",
    "have": "has",
    "haven't": "hasn't",
    "do": "does",
    "don't": "doesn't",
    "ain't": "isn't",
    "go": "goes",
}
"""First-person forms that do not follow the rules, and what stands in the third person."""

MODALS = word_set("verbs.modals")
AUXILIARIES = (
    frozenset(
        [
            "am",
            "is",
            "are",
            "was",
            "were",
            "isn't",
            "aren't",
            "wasn't",
            "weren't",
            "has",
            "hasn't",
            "had",
            "hadn't",
            "have",
            "haven't",
            "do",
            "does",
            "did",
            "don't",
            "doesn't",
            "didn't",
            "ain't",
        ]
    )
    | MODALS
)


def third(base: str) -> str:
    """The third person singular of a base form: "try" to "tries", "watch" to "watches"."""
    if base in AGREEMENT:
        return AGREEMENT[base]
    if base.endswith(("s", "x", "z", "ch", "sh", "o")):
        return base + "es"
    if base.endswith("y") and base[-2:-1] not in VOWELS:
        return base[:-1] + "ies"
    return base + "s"


def _doubles(base: str) -> bool:
    return (
        len(base) <= 6
        and len(base) >= 3
        and base[-1] not in VOWELS + "wxy"
        and base[-2] in VOWELS
        and base[-3] not in VOWELS
    )


def _past(base: str) -> tuple[str, ...]:
    if base.endswith("e"):
        return (base + "d",)
    if base.endswith("y") and base[-2:-1] not in VOWELS:
        return (base[:-1] + "ied",)
    return (base + "ed", base + base[-1] + "ed") if _doubles(base) else (base + "ed",)


def _ing(base: str) -> tuple[str, ...]:
    if base.endswith("ie"):
        return (base[:-2] + "ying",)
    if base.endswith("e") and not base.endswith(("ee", "ye", "oe")):
        return (base[:-1] + "ing",)
    return (base + "ing", base + base[-1] + "ing") if _doubles(base) else (base + "ing",)


@cache
def _irregular() -> dict[str, tuple[str, ...]]:
    return {base: tuple(forms.split()) for base, forms in lexicon.pairs("verbs_irregular.tsv").items()}


@cache
def bases() -> frozenset[str]:
    """All base forms."""
    return lexicon.words("verbs.txt") | frozenset(_irregular())


@cache
def thirds() -> dict[str, str]:
    """Third person singular to base form."""
    return {third(base): base for base in bases()} | {"has": "have", "does": "do", "is": "be"}


@cache
def pasts() -> dict[str, str]:
    """Past forms and participles to base form."""
    table = {form: base for base in lexicon.words("verbs.txt") for form in _past(base)}
    table.update({form: base for base, forms in _irregular().items() for form in forms})
    return table


@cache
def ings() -> dict[str, str]:
    """Present participles to base form."""
    return {form: base for base in bases() for form in _ing(base)} | {"being": "be", "having": "have"}


@cache
def ambiguous_pasts() -> frozenset[str]:
    """Words that are base and past form at once: put, cut, read."""
    return frozenset(base for base, forms in _irregular().items() if forms[0] == base)


@cache
def simple_pasts() -> frozenset[str]:
    """Past forms that can be the verb of a clause by themselves (not "gone", "been", "done")."""
    participles = {form for forms in _irregular().values() for form in forms[1:]}
    firsts = {forms[0] for forms in _irregular().values()} | {"were"}
    return frozenset(pasts()) - (participles - firsts)


def is_form(word: str) -> bool:
    """Whether the word is any form of a listed verb."""
    return word in bases() or word in thirds() or word in pasts() or word in ings() or word in AUXILIARIES


def agree(verb: str) -> str:
    """The verb of a first person as a third person has it; past forms and modals stay as they are."""
    low = verb.lower()
    if low in AGREEMENT:
        return AGREEMENT[low]
    if low in MODALS or low in AUXILIARIES:
        return low
    if low in lexicon.words("determiners.txt") or low in lexicon.words("prepositions.txt") - {"like"}:
        return verb
    if low in bases() - {"found"}:  # "found" is told of the past far oftener than of founders
        return (
            third(low)
            if low not in ambiguous_pasts() or low in {"read", "cut", "put", "let", "set", "hit", "knit", "fit", "bid"}
            else low
        )
    if low in pasts() or low in ings() or low in thirds():
        return verb
    if low.isalpha() and low.isascii() and verb == low and not low.endswith(("ed", "s", "ing", "ly")):
        return third(low)
    return verb


def past(base: str) -> str:
    """The simple past of a base form: "move" to "moved", "go" to "went"."""
    irregular = _irregular().get(base)
    return irregular[0] if irregular else _past(base)[-1] if _doubles(base) else _past(base)[0]
