"""Names in a text, and of what type the things are that they name."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from perdure.domain.graph import DEFAULT_TYPE, entity_key
from perdure.domain.pattern import Pattern
from perdure.pipeline import lexicon

_CAPITALS = "".join(chr(code) for code in range(0x41, 0x530) if chr(code).isupper()).replace("\\", "")
WORD = rf"(?:[{_CAPITALS}][\w&+.'’-]*[\w+]|[{_CAPITALS}]\.?|(?<!\w)[a-z][a-z0-9]{{0,19}}[{_CAPITALS}]\w*)"
"""A word of a name: with a capital, or with one inside ("iPhone", "de" stands between words alone)."""
NAME = (
    rf"(?:(?:Mr|Mrs|Ms|Mx|Dr|Prof)\.? )?{WORD}"
    rf"(?:(?: (?:of|de|da|do|dos|del|della|di|van|von|der|den|ter|la|le|al|bin|ibn|y|e|&|the)){{0,2}} "
    rf"(?:{WORD}|\d{{1,4}}(?!\w)))*(?:,? (?:Jr|Sr)\.)?"
)
"""A name, as a pattern without groups."""
_ONE_NAME = Pattern(NAME)
_OWNER = Pattern(r"['’]s ")
_BEFORE_POSTS = frozenset({"former", "current", "new", "interim", "acting", "our", "the"})
_POSSESSIVE = Pattern(r"['’]s?$")


def table(name: str) -> tuple[tuple[str, ...], ...]:
    """The rows of a data file of this folder, by tabs; `#` opens a comment line. Read once."""
    return tuple(tuple(cell.strip() for cell in row.split("\t")) for row in lines(name))


@cache
def lines(name: str) -> tuple[str, ...]:
    """The lines of a data file of this folder without comments and blank ones; outer tabs stay. Read once."""
    text = files(__package__).joinpath(name).read_text(encoding="utf-8")
    return tuple(line for line in text.splitlines() if line.strip() and not line.startswith("#"))


def names_in(text: str) -> list[str]:
    """The names in a text, in order, each once; words that open a sentence or mean a time are none."""
    found: dict[str, str] = {}
    for match in _ONE_NAME.finditer(text):
        before = text[: match.start()].rstrip()[-1:]
        opens = before in ("", *".!?:;\n(\"“'")
        if opens and text[match.end() : match.end() + 1] == ":":
            continue  # "Update: ..."
        for part in _OWNER.split(match[0]):
            name = trimmed(part, opens=opens)
            if name:
                found.setdefault(entity_key(name), name)
            opens = False
    return list(found.values())


def trimmed(name: str, *, opens: bool = False) -> str:
    """A name as the pattern found it without the words at its ends that are none; empty if nothing is left.

    `opens`: it stands where every word has a capital.
    """
    words = _POSSESSIVE.sub("", name).split()
    while len(words) > 1 and words[0].lower() in _BEFORE_POSTS:
        words = words[1:]
    if len(words) > 2 and words[1] in ("of", "at") and words[0].lower() in _posts():
        if len(words) > 3:
            return ""  # "CEO of Acme Hans Meyer": nobody knows where the one name ends
        words = words[2:]
    if len(words) > 1 and words[0].lower() in _posts():
        words = words[1:]
    while words and (_is_no_name(words[0]) or (opens and len(words) > 1 and words[0].lower() in _common())):
        words = words[1:]
        opens = False
    while words and (_is_no_name(words[-1]) or words[-1].islower()):
        words = words[:-1]
    if len(words) == 1 and words[0].lower() in _posts():
        return ""
    if len(words) == 1 and opens and words[0].lower() in _common():
        return ""
    return _POSSESSIVE.sub("", " ".join(words).rstrip(".,")) if words else ""


def type_of(name: str, expected: str = "-") -> str:
    """Of what type a thing is: as its name tells, else as is expected of it here, else a concept."""
    key = entity_key(name)
    told = _known().get(key)
    if told:
        return told
    words = key.replace(".", "").split()
    if len(words) > 1 and words[-1] in lexicon.words("reconcile_firms.txt"):
        return "organization"
    if is_given_name(name):
        return "person"
    return expected if expected != "-" else DEFAULT_TYPE


def is_given_name(name: str) -> bool:
    """Whether a name is, or begins with, a given name or a title of persons."""
    first = name.split(maxsplit=1)[0].rstrip(".") if name else ""
    return first in _given_names() or first in ("Mr", "Mrs", "Ms", "Mx", "Dr", "Prof")


@cache
def _known() -> dict[str, str]:
    kinds = (("organizations.txt", "organization"), ("places.txt", "location"), ("technologies.txt", "technology"))
    return {entity_key(name): kind for source, kind in kinds for name in lines(source)}


@cache
def _given_names() -> frozenset[str]:
    return frozenset(" ".join(lines("given_names.txt")).split())


@cache
def _posts() -> frozenset[str]:
    return frozenset(row[0] for row in table("posts.tsv"))


@cache
def _common() -> frozenset[str]:
    """Words in small letters that are no names although a sentence may begin with them."""
    return frozenset(each.lower() for each in lexicon.words("not_names.txt")) | lexicon.words("common_words.txt")


@cache
def _no_names() -> frozenset[str]:
    months = set(lexicon.pairs("recall_months.tsv"))
    days = {f"{day}day{end}" for end in ("", "s") for day in ("mon", "tues", "wednes", "thurs", "fri", "satur", "sun")}
    others = lexicon.words("recall_no_names.txt") - {"dr", "mr", "mrs", "ms", "mx", "prof"}
    return frozenset(months | days | others | {"i", "we", "q1", "q2", "q3", "q4", "h1", "h2", "the", "a", "an"})


def _is_no_name(word: str) -> bool:
    lower = word.lower().rstrip(".'’,")
    return (
        not lower
        or lower.isdigit()
        or lower in _no_names()
        or (word[0].isupper() and word.isupper() and lower in {"ok", "fyi", "asap"})
    )
