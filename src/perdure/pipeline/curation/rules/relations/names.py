"""Names in a text, and of what type the things are that they name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from perdure.domain.graph import DEFAULT_TYPE, Entity, Mention, entity_key
from perdure.domain.text.pattern import Pattern
from perdure.domain.text.readable import is_unicode
from perdure.domain.text.terms import without_accents
from perdure.pipeline import lexicon
from perdure.pipeline.lexicon import word_set

# Entities that a caller names in a memory's metadata: `{"entities": [{"name": "Alice", "type": "person"}]}`.

LONGEST_NAME = 200  # characters: a longer one is a text, and no name
MOST = 200  # entities of one memory that are read


def read_mentions(value: object) -> tuple[Mention, ...]:
    """The entities of a list, each once, in its order; an entry without a name is skipped, a type defaults.

    An entry is `{name, type, description}` or a name alone. Whatever is of another shape is no entity, and no error.
    """
    if not isinstance(value, (list, tuple)):
        return ()
    found: dict[str, Mention] = {}
    for entry in value:
        mention = _mention({"name": entry} if isinstance(entry, str) else entry)
        if mention is not None:
            found.setdefault(mention.key, mention)
        if len(found) == MOST:
            break
    return tuple(found.values())


def _mention(entry: object) -> Mention | None:
    if not isinstance(entry, Mapping):
        return None
    name = _text(entry.get("name"))
    if not name or len(name) > LONGEST_NAME:
        return None
    kind = _text(entry.get("type")).casefold()[:LONGEST_NAME]
    return Mention(name=name, type=kind or DEFAULT_TYPE, description=_text(entry.get("description")))


def _text(value: object) -> str:
    return " ".join(value.split()) if isinstance(value, str) and is_unicode(value) else ""


_CAPITALS = "".join(chr(code) for code in range(0x41, 0x530) if chr(code).isupper()).replace("\\", "")
WORD = rf"(?:[{_CAPITALS}][\w&+.'’-]*[\w+]|[{_CAPITALS}]\.?|(?<!\w)[a-z][a-z0-9]{{0,19}}[{_CAPITALS}]\w*)"
"""A word of a name: with a capital, or with one inside ("iPhone", "de" stands between words alone)."""
NAME = (
    rf"(?:(?:Mr|Mrs|Ms|Mx|Dr|Prof)\.? )?{WORD}(?:(?: (?:of|de|da|do|dos|del|della|di|van|von|der|den|ter|la|le|al|bin|"
    rf"ibn|y|e|&|the)){{0,2}} (?:{WORD}|\d{{1,4}}(?!\w)))*(?:,? (?:Jr|Sr)\.)?"
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


# What a role is held of and a verb leads to: a name, or what a team writes in small letters ("the launch team").

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


def read_held(words: str) -> Thing | None:
    """What a post is held of, where a plain noun names it: "the harbour" of "the head of the harbour".

    A post makes a thing of it that is spoken of by that name, as one of a place of work or a club is. None for people,
    times, measures and words that point back, and for what is not "the" or "our" one.
    """
    found = _HELD.fullmatch(words.strip(" ,."))
    if found is None:
        return None
    noun, before = found["noun"], found["before"]
    never, alone = _no_thing()
    words_of_it = {noun, noun.removesuffix("s")}
    if words_of_it & never or (not before and (words_of_it & alone or noun in _grounds())):
        return None
    return Thing(f"{before}{noun}", DEFAULT_TYPE)


_HELD = Pattern(
    r"(?:the|our) (?:(?:new|whole|entire|old|local) )?(?P<before>(?:[a-z][a-z'’-]+ ){0,2})(?P<noun>[a-z][a-z'’-]{2,})"
)


@cache
def _no_thing() -> tuple[frozenset[str], frozenset[str]]:
    """Words that name no thing of which there are posts, and those that need another word before them to name one."""
    never = frozenset(lines("no_grounds.txt")) | lexicon.words("time_words.txt") | lexicon.words("recall_stopwords.txt")
    kin = lexicon.words("reconcile_kin.txt")
    return never | kin | lexicon.words("roles.txt"), lexicon.words("reconcile_generic.txt")


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


# Which known entity a name means: the same name, or one so near that it can be no other; in doubt none.

_TITLES = frozenset({"mr", "mrs", "ms", "miss", "mx", "dr", "prof", "sir"})
_FORMS = word_set("resolve.forms")
_BREAKS = Pattern(r"[^\w]+|_+")
_GENITIVE = Pattern(r"['’]s$")
LONG_WORD = 7  # letters that a word must have for a slip in it to be told from another word


def resolve(name: str, type: str, candidates: Sequence[Entity]) -> str | None:
    """The name by which a candidate is known that is the entity named; None if none is, or more than one may be.

    First the same name (`entity_key`), then the same but for accents, punctuation, a title ("Ms. Alice Smith") or the
    form of a firm ("Google Inc."), then but for a slip of the pen in a long word. From the second on the types must
    agree: be equal, or one of them not known. A first name alone is nobody's full name. The order of the candidates
    does not matter.
    """
    key = entity_key(name)
    for known in candidates:
        if entity_key(known.name) == key:
            return known.name
    fitting = [known for known in candidates if _agree(type, known.type)]
    core = _core(name)
    if not core:
        return None
    same = [known.name for known in fitting if _core(known.name) == core]
    if same:
        return _only(same)
    return _only([known.name for known in fitting if _is_slip(core, _core(known.name), "person" in (type, known.type))])


def _agree(one: str, other: str) -> bool:
    return one == other or DEFAULT_TYPE in (one, other)


def _only(names: Sequence[str]) -> str | None:
    """The one entity that all names are; None if they are several."""
    return min(names) if len({entity_key(name) for name in names}) == 1 else None


def _core(name: str) -> tuple[str, ...]:
    """The words that make a name: small letters, no accents, titles, articles or forms of firms."""
    plain = without_accents(_GENITIVE.sub("", name.strip())).casefold().replace(".", "")
    words = [word for word in _BREAKS.split(plain) if word]
    while len(words) > 1 and (words[0] in _TITLES or words[0] == "the"):
        words = words[1:]
    while len(words) > 1 and words[-1] in _FORMS:
        words = words[:-1]
    return tuple(words)


def _is_slip(one: tuple[str, ...], other: tuple[str, ...], is_person: bool) -> bool:
    """Whether two names differ by one slip in one long word that begins alike, and in no digit.

    Of persons only letters that changed places or were doubled: Andersen and Anderson are two families.
    """
    if len(one) != len(other):
        return False
    differing = [(left, right) for left, right in zip(one, other, strict=True) if left != right]
    if len(differing) != 1:
        return False
    left, right = differing[0]
    if min(len(left), len(right)) < LONG_WORD or left[0] != right[0] or not (left + right).isalpha():
        return False
    return _is_swap(left, right) or _is_doubling(left, right) or (not is_person and _is_one_off(left, right))


def _is_swap(one: str, other: str) -> bool:
    if len(one) != len(other):
        return False
    places = [place for place in range(len(one)) if one[place] != other[place]]
    return len(places) == 2 and places[1] == places[0] + 1 and sorted(one) == sorted(other)


def _is_doubling(one: str, other: str) -> bool:
    """Whether one has a letter twice in a row that the other has once."""
    short, long = sorted((one, other), key=len)
    if len(long) != len(short) + 1:
        return False
    place = next((place for place in range(len(short)) if short[place] != long[place]), len(short))
    return short[place:] == long[place + 1 :] and long[place] == long[place - 1]


def _is_one_off(one: str, other: str) -> bool:
    """Whether one letter was put in, left out or replaced, an `s` at the end aside: that makes another word."""
    short, long = sorted((one, other), key=len)
    if long == f"{short}s" or len(long) - len(short) > 1:
        return False
    place = next((place for place in range(len(short)) if short[place] != long[place]), len(short))
    return short[place + (len(long) == len(short)) :] == long[place + 1 :]
