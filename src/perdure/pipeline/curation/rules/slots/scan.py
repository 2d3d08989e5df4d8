"""Scanning: a text as tokens, each a word, a name or a number with its place in the text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal

from perdure.domain.text.pattern import Pattern
from perdure.domain.text.terms import light_stem, without_accents
from perdure.pipeline.curation.rules.memo import per_text
from perdure.pipeline.lexicon import lines, pairs, words

# The reading of one statement: who it is about, what it says of them, and how.

# Typed values: money, measures, clock times, dates, weekdays and numbers in one canonical form each.

ValueKind = Literal[
    "money", "measure", "percent", "clock", "date", "weekday", "part", "frequency", "ordinal", "number", "code"
]

_HALF_DAY = 720.0
_PART_HOURS = 8  # hours for which a part of the day lasts at the most: a morning from 4, an evening from 16
_CLOSE = 1e-6
_NUMERIC = frozenset({"number", "money"})


@dataclass(frozen=True, slots=True)
class Value:
    """One typed value.

    `amount`: the number in the unit's base (minutes after midnight for a clock, the day's number for a weekday, the
    hour at which a part of the day begins, times a year for a frequency).
    `unit`: currency, dimension, or what is counted; "" if not said. `date`: year, month, day, each None if not said.
    """

    kind: ValueKind
    amount: float = 0.0
    unit: str = ""
    date: tuple[int | None, int | None, int | None] = (None, None, None)
    code: str = ""

    @property
    def vague_clock(self) -> bool:
        """Whether a clock time leaves open which half of the day is meant."""
        return self.kind == "clock" and self.unit == "?"


def fits(new: Value, old: Value) -> bool:
    """Whether the new value says nothing that the old one does not say: equal, or less precise."""
    if new.kind == "date" and old.kind == "date":
        return all(mine is None or mine == theirs for mine, theirs in zip(new.date, old.date, strict=True))
    if new.kind == "ordinal" and old.kind == "date":
        return new.amount == old.date[2]
    if new.kind == "part" and old.kind == "clock":
        return old.vague_clock or 0 <= (old.amount / 60 - new.amount) % 24 < _PART_HOURS
    if "clock" in (new.kind, old.kind):
        return _same_clock(new, old)
    if new.kind in _NUMERIC and old.kind in _NUMERIC:
        return _close(new.amount, old.amount) and (new.unit == old.unit or "" in (new.unit, old.unit))
    if new.kind != old.kind:
        return "ordinal" in (new.kind, old.kind) and "number" in (new.kind, old.kind) and new.amount == old.amount
    if new.kind == "code":
        return new.code == old.code
    return _close(new.amount, old.amount) and new.unit == old.unit


def comparable(left: Value, right: Value) -> bool:
    """Whether two values answer the same question, so that at most one of them can hold."""
    if left.kind == right.kind:
        return left.kind != "measure" or left.unit == right.unit
    kinds = {left.kind, right.kind}
    return (
        kinds <= {"number", "money"}
        or kinds <= {"number", "clock"}
        or kinds <= {"date", "ordinal"}
        or kinds <= {"date", "weekday"}
        or kinds <= {"number", "code"}
    )


def _same_clock(new: Value, old: Value) -> bool:
    moments = []
    for value in (new, old):
        if value.kind == "clock":
            moments.append((value.amount, value.vague_clock))
        elif value.kind == "number" and 0 <= value.amount <= 24 and float(value.amount).is_integer():
            moments.append((value.amount * 60, value.amount <= 12))
        else:
            return False
    (one, one_vague), (two, two_vague) = moments
    gap = abs(one - two)
    return _close(gap, 0) or ((one_vague or two_vague) and _close(gap, _HALF_DAY))


def _close(left: float, right: float) -> bool:
    return abs(left - right) <= _CLOSE + 0.005 * max(abs(left), abs(right)) * (abs(left - right) < 0.01)


USER = "@user"  # the concept of the user as a participant in a predicate ("Bente has a key to User's house")


@dataclass(frozen=True, slots=True)
class Party:
    """Someone or something that statements are about.

    `relation` is what they are to `of` ("sister" of the user), `name` the stems of what they are called; the user has
    neither. A thing that belongs to nobody has kind "thing" and no name: its words are the statement's topic.
    """

    kind: Literal["user", "relative", "named", "thing"]
    relation: str = ""
    name: str = ""
    of: str = USER


@dataclass(frozen=True, slots=True)
class Chunk:
    """One phrase of a predicate: the word that leads it ("" for an object), its concepts in order, its values."""

    lead: str
    concepts: tuple[str, ...]
    names: frozenset[str] = frozenset()
    values: tuple[Value, ...] = ()
    start: int = 0
    end: int = 0
    aside: bool = False  # stands in a subordinate clause: a reason, a circumstance, a result

    @property
    def head(self) -> str:
        """The concept that the phrase is about: its last one."""
        return self.concepts[-1] if self.concepts else ""


@dataclass(frozen=True, slots=True)
class Slot:
    """One attribute that a statement fills: the concepts and typed values of its value."""

    attribute: str
    concepts: tuple[str, ...]
    values: tuple[Value, ...] = ()
    text: str = ""
    single: bool = True
    names: frozenset[str] = frozenset()
    start: int = 0
    end: int = 0  # where the value stands in the rewritten text


@dataclass(frozen=True, slots=True)
class Mood:
    """How a statement is made.

    negated: said not to be so; ended: no longer so; hedged: uncertain or conditional; planned: intended, not done;
    past: told in the past tense; denied: an earlier statement was untrue.
    """

    negated: bool = False
    ended: bool = False
    hedged: bool = False
    planned: bool = False
    past: bool = False
    denied: bool = False
    started: bool = False
    changed: bool = False  # says that something changed: now, moved to, instead, again
    temporary: bool = False
    corrected: bool = False  # says that an earlier telling was wrong
    ahead: bool = False  # told for a later time than that of its message


@dataclass(frozen=True, slots=True)
class Reading:
    """A statement taken apart."""

    text: str
    party: Party
    topic: tuple[str, ...]  # concepts of the thing that the sentence is about, the head last ("architect meeting")
    topic_values: tuple[Value, ...]
    topic_names: frozenset[str]
    verb: str
    chunks: tuple[Chunk, ...]
    mood: Mood
    slots: tuple[Slot, ...] = ()
    replaced: tuple[tuple[str, ...], ...] = ()
    """What the statement names as given up: the concepts of A in "from A to B", "B instead of A", "not A"."""
    replaced_values: tuple[Value, ...] = ()
    concepts: frozenset[str] = field(default_factory=frozenset)
    names: frozenset[str] = field(default_factory=frozenset)
    values: tuple[Value, ...] = ()

    qualifier: frozenset[str] = frozenset()
    """What tells the party from others of its kind: the thesis in "User's mentor for the thesis"."""

    doer_last: bool = False  # said of what is done, the party behind: "the list is kept by Torvald"

    turned: Reading | None = None
    """The same said from the other side ("Marek sold User the tent": User bought it from Marek)."""
    known: dict[str, Any] = field(default_factory=dict, init=False, compare=False, repr=False)
    """What was computed from this reading (see `memo.per_reading`)."""

    @property
    def main(self) -> tuple[Chunk, ...]:
        """The phrases of the main clause."""
        return tuple(chunk for chunk in self.chunks if not chunk.aside)


_LETTERS = str.maketrans({"ø": "o", "ł": "l", "ß": "ss", "æ": "ae", "đ": "d", "ı": "i"})


@per_text(8192)
def fold(word: str) -> str:
    """The word in lower case without accents; scripts other than Latin keep their marks."""
    lowered = word.lower().translate(_LETTERS)
    return lowered if lowered.isascii() else without_accents(lowered, only_latin=True)


@per_text(16384)
def stem(word: str) -> str:
    """The light stem of a folded English word, with irregular forms by the lexicon's table."""
    return light_stem(word, _irregular())


@cache
def _irregular() -> dict[str, str]:
    return {fold(form): fold(base) for form, base in pairs("reconcile_forms.tsv").items()}


MAX_TOKENS = 96
"""Tokens that are read of one statement: a memory is one sentence, and longer texts compare by their beginning."""

_SCAN = Pattern(
    r"""
    (?P<iso>(?<!\d)\d{4}-\d{2}-\d{2}(?!\d))
  | (?P<phone>(?<![\w.])\+?\d{2,5}(?:[ -]\d{2,5}){1,5}(?![\w]|[.,:]\d))
  | (?P<clock>(?<![\w.])\d{1,2}(?::\d{2}(?!\d)|(?:[.:]\d{2})?\s?(?:[ap]\.?m\b\.?|o'?clock\b)) (?:\s?[ap]\.?m\b\.?)?)
  | (?P<height>(?<![\w.])\d'\d{1,2}(?:"|'')?)
  | (?P<nth>(?<![\w.])\d{1,3}(?:st|nd|rd|th)\b)
  | (?P<number>(?<![\w])\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\d)|(?<![\w])\d{1,15}(?:\.\d+){0,3}(?!\d))
      (?P<suffix>k\b|%|(?:kg|km|cm|mm|ml|mg|lb|lbs|gb|tb|mb|min|mins|hrs?|h|m|g|l)\b)?
  | (?P<sign>[$€£¥%])
  | (?P<code>(?=[\w.-]{0,60}[\d_])[^\W\d_]\w*(?:[-.]\w+)*)
  | (?P<word>[^\W\d_]+(?:['][^\W\d_]+)*)
  | (?P<odd>\w+)
  | (?P<stop>[,;:()"—–]|\.(?=\s))
    """,
    re.VERBOSE | re.IGNORECASE,
)
_CONTRACTIONS = {
    "can't": ("can", "not"),
    "won't": ("will", "not"),
    "shan't": ("shall", "not"),
    "cannot": ("can", "not"),
}
_TAILS = {"'re": "are", "'ve": "have", "'ll": "will", "'m": "am", "'d": "would"}
_IS_HOSTS = frozenset({"it", "he", "she", "that", "there", "who", "what", "here", "this"})
_QUOTES = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "“": '"', "”": '"', "−": "-", "‑": "-", "‐": "-", " ": " "})


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a text: what was written, its folded form and stem, and where it stands."""

    text: str
    low: str
    stem: str
    start: int
    end: int
    name: bool = False
    value: Value | None = None
    stop: bool = False  # a comma, colon, bracket or the like: it ends a phrase and means nothing itself


def plain(text: str) -> str:
    """The text with typographic quotes, hyphens and spaces made plain; its length does not change."""
    return text.translate(_QUOTES)


def scan(text: str) -> list[Token]:
    """The tokens of a text, at most `MAX_TOKENS`; contractions are taken apart, 's of possession is a token."""
    text = plain(text)
    tokens: list[Token] = []
    for match in _SCAN.finditer(text):
        tokens.extend(_read(match))
        if len(tokens) >= MAX_TOKENS:
            break
    return tokens[:MAX_TOKENS]


def _read(match: re.Match[str]) -> list[Token]:
    kind, start, end = match.lastgroup or "", match.start(), match.end()
    text = match.group()
    if kind == "suffix":
        kind = "number"
    if kind == "stop":
        return [Token(text, text, "", start, end, stop=True)]
    if kind == "word":
        return _words(text, start)
    value = _value(kind, match)
    low = fold(text)
    token = Token(text, low, stem(low) if value is None else "", start, end, name=kind == "code", value=value)
    if kind == "number" and (suffix := match.group("suffix")) and suffix.lower() not in ("k", "%"):
        split = match.start("suffix")
        token = replace(token, text=text[: split - start], low=low[: split - start], end=split)
        return [token, Token(suffix, fold(suffix), fold(suffix), split, end)]
    return [token]


def _words(text: str, start: int) -> list[Token]:
    """A word with its contraction or possessive taken off; hyphens have separated words already."""
    low = fold(text)
    parts = _CONTRACTIONS.get(low)
    if parts is None and low.endswith("n't") and len(low) > 3:
        parts = (low[:-3], "not")
    if parts is not None:
        return [_word(part, part, start, start + len(text)) for part in parts]
    for tail, full in _TAILS.items():
        if low.endswith(tail):
            head = text[: -len(tail)]
            return [_word(head, fold(head), start, start + len(head)), _word(full, full, start, start + len(text))]
    if low.endswith("'s"):
        head, cut = text[:-2], start + len(text) - 2
        tail = "is" if low[:-2] in _IS_HOSTS else "'s"
        return [_word(head, fold(head), start, cut), Token(tail, tail, "be" if tail == "is" else tail, cut, cut + 2)]
    return [_word(text, low, start, start + len(text))]


def _word(text: str, low: str, start: int, end: int) -> Token:
    return Token(text, low, stem(low), start, end, name=text[:1].isupper())


def _value(kind: str, match: re.Match[str]) -> Value | None:
    text = match.group()
    if kind == "iso":
        year, month, day = (int(part) for part in text.split("-"))
        return Value("date", date=(year, month, day))
    if kind == "phone":
        digits = re.sub(r"\D", "", text)
        return Value("code", code=digits)
    if kind == "clock":
        return _clock(text)
    if kind == "height":
        feet, inches = re.findall(r"\d+", text)[:2]
        return Value("measure", round((int(feet) * 12 + int(inches)) * 0.0254, 4), "length")
    if kind == "nth":
        return Value("ordinal", float(re.sub(r"\D", "", text)))
    if kind == "number":
        return _number(match)
    return None


def _number(match: re.Match[str]) -> Value:
    digits = match.group("number").replace(",", "")
    suffix = (match.group("suffix") or "").lower()
    if digits.count(".") > 1 or (digits.startswith("0") and len(digits) > 1 and "." not in digits):
        return Value("code", code=digits)
    amount = float(digits)
    if suffix == "k":
        return Value("number", amount * 1000)
    return Value("percent", amount) if suffix == "%" else Value("number", amount)


def _clock(text: str) -> Value:
    numbers = [int(part) for part in re.findall(r"\d+", text)]
    hour, minute = numbers[0], numbers[1] if len(numbers) > 1 else 0
    half = re.search(r"[ap]", text.lower().replace("o'clock", "").replace("oclock", ""))
    if half is None:
        return Value("clock", float(hour * 60 + minute), "?" if 1 <= hour <= 12 and ":" not in text else "")
    hour = hour % 12 + (12 if half.group() == "p" else 0)
    return Value("clock", float(hour * 60 + minute))


# Rewriting: sentence shapes that say the same are brought to one, with the subject first.

MAX_TEXT = 600  # characters of a statement that are read

_WORD = r"[^\W\d_a-z][\w'.-]*"
NAME = rf"(?:{_WORD}(?: (?:(?:of|the|de|von|van|la|and|for|in|on|a|&) )?{_WORD}){{0,5}})"
_VALUE = (
    r"(?:[£$€]?\d|the \d|(?:every|once|twice|half|noon|midnight|one|two|three|four|five|six|seven|eight|nine|ten|"
    r"eleven|twelve|fifteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)\b(?! of\b)|"
    r"(?i:mon|tues|wednes|thurs|fri|satur|sun)day|(?i:january|february|april|june|july|august|september|october|"
    r"november|december)\b|(?:March|May)\b)"
)
SINCE = r"(?: now| these days| instead|,? (?:for|from|since|until|till|as of|as from|starting|this) [^,;]{2,40})"
_PARTICLE_WORDS = frozenset(["back", "off", "up", "away", "out", "down", "over", "go"])
_PREPOSITIONS = _PARTICLE_WORDS | frozenset(
    ["to", "from", "in", "at", "on", "with", "for", "by", "of", "into", "as", "about", "and", "but"]
)


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A statement in the shape that is read, and whether it was said to be untrue."""

    text: str
    denied: bool = False


def rewrite(text: str) -> Rewritten:
    """The statement in its plain shape; a text that fits none of the shapes comes back as it is."""
    text = plain(" ".join(text[:MAX_TEXT].split())).rstrip(" .!;,")
    text = _before("reconcile_fillers.txt").sub("", text)
    denial = _before("reconcile_denials.txt").match(text)
    if denial is not None:
        text = text[denial.end() :]
    text = _subject_first(text)
    text = _particles().sub(_join_particle, text)
    for pattern, replacement in _shapes():
        text = pattern.sub(replacement, text)
    return Rewritten(" ".join(text.split()), denial is not None)


def _join_particle(match: re.Match[str]) -> str:
    """ "gave the drill back" as "gave back the drill"; a phrase with a preposition in it stays as it is."""
    verb, middle, particle = match.groups()
    words = middle.lower().split()
    if any(word in _PREPOSITIONS for word in words):
        return match.group()
    return f"{verb} {particle} {middle}"


def _subject_first(text: str) -> str:
    """ "In June User moves" as "User moves in June"."""
    opener = _opener().match(text)
    if opener is None or text.lower().startswith(("user", "the user")):
        return text
    return f"{text[opener.end() :]} {opener.group(1)[:1].lower()}{opener.group(1)[1:]}"


@cache
def _before(name: str) -> re.Pattern[str]:
    """The phrases of a file at the beginning of a text."""
    return re.compile(rf"^(?:{_either(name)}) ", re.IGNORECASE)


@cache
def _opener() -> re.Pattern[str]:
    return re.compile(
        rf"^((?:{_either('reconcile_openers.txt')})\b[^,.;:]{{0,50}}?),? "
        r"(?=(?:User|the user)\b|(?-i:[A-ZÀ-ÖØ-Þ]\w+) (?:is|was|has|will)\b)",
        re.IGNORECASE,
    )


@cache
def _particles() -> re.Pattern[str]:
    particles = "|".join(sorted(_PARTICLE_WORDS))
    verbs = _either("reconcile_movable.txt")
    return re.compile(rf"\b({verbs}) ((?:[^\s,;]+ ){{0,3}}?[^\s,;]+) ({particles})\b(?! to date\b)", re.IGNORECASE)


@cache
def _shapes() -> tuple[tuple[re.Pattern[str], str], ...]:
    split = (line.partition("\t") for line in lines("reconcile_shapes.tsv"))
    parts = {"{NAME}": NAME, "{VALUE}": _VALUE, "{SINCE}": SINCE, "{POST}": f"(?:{_either('reconcile_posts.txt')})"}
    return tuple((re.compile(_filled(pattern, parts)), replacement) for pattern, _, replacement in split)


def _filled(pattern: str, parts: dict[str, str]) -> str:
    for name, part in parts.items():
        pattern = pattern.replace(name, part)
    return pattern


def _either(name: str) -> str:
    """The entries of a file as alternatives, the longest first."""
    return "|".join(re.escape(entry) for entry in sorted(lines(name), key=lambda entry: (-len(entry), entry)))


# The vocabulary of the slots as compiled look-ups: phrases, kinds, relations and word classes.

ARTICLES = frozenset({"a", "an", "the", "their", "his", "her"})  # words that phrases are compared without
MAX_PHRASE = 5  # words of the longest phrase that the synonym table may hold


@cache
def synonyms() -> dict[tuple[str, ...], str]:
    """Stems of each phrase of `reconcile_synonyms.txt` to the concept that it stands for ("" for none).

    A line is `concept: phrase, phrase`; the concept's own words belong to it too. `-` as concept drops its phrases.
    """
    table: dict[tuple[str, ...], str] = {}
    for line in lines("reconcile_synonyms.txt"):
        concept, _, phrases = line.partition(":")
        concept = concept.strip()
        target = "" if concept == "-" else stem(fold(concept))
        for phrase in [*([] if concept[0] in "-@" else [concept]), *phrases.split(",")]:
            key = stems(phrase)
            if key and len(key) <= MAX_PHRASE:
                table.setdefault(key, target)
    return table


@cache
def phrase_starts() -> dict[str, int]:
    """First stem of each phrase to the length of the longest phrase that begins with it."""
    longest: dict[str, int] = {}
    for key in synonyms():
        longest[key[0]] = max(longest.get(key[0], 0), len(key))
    return longest


@cache
def kinds() -> dict[str, frozenset[str]]:
    """Each concept to every more general one, from `reconcile_kinds.txt` (`general: special, special`)."""
    parents: dict[str, set[str]] = {}
    for line in lines("reconcile_kinds.txt"):
        general, _, specials = line.partition(":")
        above = concept_of(general)
        for special in specials.split(","):
            below = concept_of(special)
            if below and above and below != above:
                parents.setdefault(below, set()).add(above)
    return {below: frozenset(_ancestors(below, parents)) for below in parents}


def _ancestors(start: str, parents: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = list(parents.get(start, ()))
    while waiting:
        above = waiting.pop()
        if above not in found and above != start:
            found.add(above)
            waiting.extend(parents.get(above, ()))
    return found


def is_kind_of(special: str, general: str) -> bool:
    """Whether a concept is the other or one of its kinds ("beagle" of "dog")."""
    return special == general or general in kinds().get(special, frozenset())


@per_text(8192)
def concept_of(phrase: str) -> str:
    """The concept of a word or phrase: its synonym class, else its stems joined by a hyphen."""
    key = stems(phrase)
    known = synonyms().get(key)
    return "-".join(key) if known is None else known


def stems(phrase: str) -> tuple[str, ...]:
    """The stems of a phrase's words."""
    tokens = [token for token in scan(phrase) if not token.stop]
    return tuple(token.stem or token.low for token in tokens if len(tokens) == 1 or token.low not in ARTICLES)


@cache
def stem_set(name: str) -> frozenset[str]:
    """The single-word entries of a word file as stems."""
    return frozenset(stem(fold(word)) for word in words(name))


@cache
def fold_set(name: str) -> frozenset[str]:
    """The entries of a word file, folded."""
    return frozenset(fold(word) for word in words(name))


@cache
def relations() -> dict[tuple[str, ...], str]:
    """Stems of each way to name a person (or pet) by what they are to someone, to the relation's name."""
    table: dict[tuple[str, ...], str] = {}
    for line in lines("reconcile_relations.txt"):
        relation, _, phrases = line.partition(":")
        relation = relation.strip()
        for phrase in (relation, *phrases.split(",")):
            if key := stems(phrase):
                table.setdefault(key, relation)
    return table
