"""Keep text of tools, and text with orders for a model, out of prompts; wordings are in `lexicon/firewall_*`."""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from hashlib import blake2b
from urllib.parse import unquote

from perdure.domain.message import Message
from perdure.domain.text.pattern import Pattern
from perdure.pipeline.lexicon import lines, pairs, words
from perdure.pipeline.prompting.quoting import (  # fmt: skip
    CANONICAL,
    CLOSING,
    CONTEXT,
    DIRECTIVES,
    FACTS,
    HEADER,
    LONG_TERM,
    OPENING,
    PROFILE,
    SUMMARY,
    fingerprint,
)

# Suspicion: whether and why a text is kept out of prompts.

# Folding: the same words whatever they were written with, for comparing alone.

LINK = "zzlink"  # replaces the sign of an address, `://` or `@`
_CJK = "\u3005\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_TOKEN = Pattern(rf"[{_CJK}]|(?:(?![{_CJK}])[^\W_])+")
_MARKS = Pattern("[\u0300-\u036f]")
_SPELLED = Pattern(r"(?<![^\W_])[^\W_](?:[ .\-_*|/][^\W_]){3,}(?![^\W_])")
"""Letters that are separated by one sign each."""
_APOSTROPHES = Pattern(r"(?<=[^\W\d_])['’ʼ`´](?=[^\W\d_])")
_SUSPICION_WORD = Pattern(r"[^\W_]+")
_DIGITS = str.maketrans("013457", "oieast")
_UNSPOKEN = Pattern("[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e"
                       "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e01ef]")  # fmt: skip
_EMPHASIS = str.maketrans(dict.fromkeys("*`~", "") | {"_": " "})


def fold(text: str) -> str:
    """Return lower case without invisible characters, diacritics, look-alikes, entities, emphasis; lines stay."""
    if "&" in text:
        text = html.unescape(text)
    if "%" in text:
        text = unquote(text, errors="ignore")
    if not text.isascii():
        text = _UNSPOKEN.sub("", unicodedata.normalize("NFKC", text))
        text = unicodedata.normalize("NFC", _MARKS.sub("", unicodedata.normalize("NFD", text.casefold())))
        text = _SUSPICION_WORD.sub(_latin, text)
    text = _APOSTROPHES.sub("", text.lower())
    return _SPELLED.sub(_joined, text.translate(_EMPHASIS))


def tokens(folded: str) -> list[str]:
    """Return the words of folded text (characters of unspaced scripts); digits in words are read as letters."""
    marked = folded.replace("://", f" {LINK} ").replace("@", f" {LINK} ")
    return [_unleet(word) for word in _TOKEN.findall(marked)]


def squeezed(folded: str) -> str:
    """Return only the letters and digits of folded text."""
    return "".join(map(_unleet, _SUSPICION_WORD.findall(folded)))


def rot13(text: str) -> str:
    """Decode the text as rot13."""
    return codecs.decode(text, "rot13")


def _unleet(word: str) -> str:
    return word if word.isalpha() or word.isdigit() else word.translate(_DIGITS)


def _joined(match: re.Match[str]) -> str:
    return match.group()[::2]


def _latin(match: re.Match[str]) -> str:
    """Return a word of look-alikes as the Latin word that it resembles; any other as it is."""
    word = match.group()
    if word.isascii():
        return word
    seen = word.translate(_lookalikes())
    return seen if seen.isascii() else word


@cache
def _lookalikes() -> dict[int, str]:
    return {ord(strange): plain for strange, plain in pairs("firewall_lookalikes.tsv").items()}


# Wordings: orders to an assistant, found as classes of words close to each other.

SHORTEST_STEM = 3
BEFORE = 3  # words before a wording in which an excluded class counts too


@dataclass(frozen=True, slots=True)
class _Entry:
    """A word or phrase of the vocabulary, tokenised; a stem ends with `*`."""

    words: tuple[str, ...]
    name: str

    def matches(self, said: Sequence[str], at: int) -> bool:
        """Whether it matches the words from a position on; its first word is known to."""
        if at + len(self.words) > len(said):
            return False
        return all(_fits(word, said[at + place]) for place, word in enumerate(self.words) if place)


@dataclass(frozen=True, slots=True)
class _Rule:
    classes: tuple[str, ...]
    gaps: tuple[int, ...]
    without: tuple[str, ...]


@dataclass(slots=True)
class _Places:
    """The places of a class: beginnings and ends of its entries, ordered by beginning."""

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)


def ordered(said: Sequence[str]) -> bool:
    """Whether folded words contain an order to an assistant, by one of the wordings in the lexicon."""
    found = _found(said)
    return any(_holds(rule, found) for rule in _rules())


def _holds(rule: _Rule, found: dict[str, _Places]) -> bool:
    if any(name not in found for name in rule.classes):
        return False
    first = found[rule.classes[0]]
    # The ends of the matches so far, in order, and the beginning of the nearest one.
    chains = sorted({end: start for start, end in zip(first.starts, first.ends, strict=True)}.items())
    for name, gap in zip(rule.classes[1:], rule.gaps, strict=True):
        ends = [end for end, _ in chains]
        longer: dict[int, int] = {}
        for start, end in zip(found[name].starts, found[name].ends, strict=True):
            nearest = bisect_right(ends, start) - 1
            if nearest >= 0 and start - ends[nearest] <= gap:
                longer[end] = max(chains[nearest][1], longer.get(end, 0))
        chains = sorted(longer.items())
    return any(not _stands(rule.without, found, begin - BEFORE, end) for end, begin in chains)


def _stands(names: Sequence[str], found: dict[str, _Places], begin: int, end: int) -> bool:
    for name in names:
        starts = found[name].starts if name in found else []
        place = bisect_left(starts, begin)
        if place < len(starts) and starts[place] < end:
            return True
    return False


def _found(said: Sequence[str]) -> dict[str, _Places]:
    """Return the classes in the words, and their places."""
    begun: dict[str, list[_Entry]] = {}
    found: dict[str, _Places] = {}
    for at, word in enumerate(said):
        if word not in begun:
            begun[word] = _begun_by(word)
        for entry in begun[word]:
            if entry.matches(said, at):
                places = found.setdefault(entry.name, _Places())
                places.starts.append(at)
                places.ends.append(at + len(entry.words))
    return found


def _begun_by(word: str) -> list[_Entry]:
    """Return the entries that a word may begin."""
    whole, stems = _vocabulary()
    entries = list(whole.get(word, ()))
    for length in range(SHORTEST_STEM, min(len(word), _longest_stem()) + 1):
        entries += stems.get(word[:length], ())
    return entries


def _fits(pattern: str, word: str) -> bool:
    return word.startswith(pattern[:-1]) if pattern.endswith("*") else word == pattern


@cache
def _vocabulary() -> tuple[dict[str, list[_Entry]], dict[str, list[_Entry]]]:
    """Return the entries by their first word, and by their first stem."""
    whole: dict[str, list[_Entry]] = {}
    stems: dict[str, list[_Entry]] = {}
    for line in lines("firewall_words.tsv"):
        name, _, entries = line.partition("\t")
        for text in entries.split("; "):
            stem = text.endswith("*")
            words = tokens(fold(text.rstrip("*")))
            if stem:
                words[-1] += "*"
            entry = _Entry(tuple(words), name.strip())
            first = words[0]
            table = stems if first.endswith("*") else whole
            table.setdefault(first.rstrip("*"), []).append(entry)
    return whole, stems


@cache
def _longest_stem() -> int:
    return max(map(len, _vocabulary()[1]))


@cache
def _rules() -> tuple[_Rule, ...]:
    rules = []
    for line in lines("firewall_rules.txt"):
        wording, _, without = line.partition(" without ")
        classes = tuple(re.findall(r"<([a-z]+)>", wording))
        gaps = tuple(int(gap) for gap in re.findall(r"> (\d+) <", wording))
        rules.append(_Rule(classes, gaps, tuple(re.findall(r"<([a-z]+)>", without))))
    return tuple(rules)


# Marks that no person writes: forged turns and blocks, hidden letters, addresses that exfiltrate data.

LEAST_ENCODED = 24  # minimum characters of a run that is tried as base64 or hexadecimal
_HIDDEN = Pattern("[\u202d\u202e]|(?<![\U0001f3f4\U000e0000-\U000e007f])[\U000e0020-\U000e007e]")
"""Overrides of the writing direction, and tag letters outside of flags."""
_TURN = Pattern(
    r"<\|[a-z_ ]{2,24}\|>|\[/?inst\]|<</?sys>>|\[system\]\(|^#{1,4} ?(?:system|assistant|developer|instruction)s?:"
    r"|\n ?(?:assistant|human|developer|ai): ?\S|(?:begin|start of) (?:system|developer) (?:message|prompt)"
    r"|(?:new|updated) system (?:prompt|context|message)|system prompt update"
    r"|end of (?:the )?(?:user|system) (?:message|prompt|input)"
    r"|[\"']role[\"'] ?: ?[\"'](?:system|developer|assistant)[\"']"
    r"|\n ?system: ?(?:[^\n]{0,80}\b)?(?:you|must|obey|from now on|never|always|du|tu|user|ignore)\b"
    r"|</?(?:system|assistant|user|developer|instructions?|context|prompt|[a-z]{0,20}[_-]?memor(?:y|ies)|assistant_[a-z]{1,20})"
    r"(?: [^>\n]{0,80})?/?>",
    re.MULTILINE,
)
"""Turns and parts of a prompt, in folded text."""
_CARRIER = Pattern(
    r"(?:!?\[[^\]\n]{0,100}\]\(|<img [^>\n]{0,40}src ?= ?[\"']?|(?:fetch|open|get|call|visit|load) )https?://"
    r"[^\s)>\"']{1,200}\?[^\s)>\"'=]{0,40}=(?:[{<\[%]|[A-Z]{2,20}_[A-Z_]{2,40})"
)
_BLOCK = Pattern(r"[</‹]perdure-?memory|perdure-?memory[>›]")
_LIST_FORGED = Pattern(r'"? \(\d{4}-\d\d-\d\d\)[ \t]*\n[ \t]*- "')
_RUN = Pattern(rf"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/_-]{{{LEAST_ENCODED},}}={{0,2}}")
_SPACE = Pattern(r"\s+")
_READABLE = 0.9  # share of printable characters from which decoded bytes count as text


def is_hidden(text: str) -> bool:
    """Whether it contains letters that a model reads and nobody sees, or that show in another order."""
    return _HIDDEN.search(text) is not None


def is_forged(text: str, folded: str) -> bool:
    """Whether it imitates turns of a conversation, parts of a prompt, or perdure's own block."""
    if _TURN.search(folded) or _LIST_FORGED.search(text):
        return True
    if "fingerprint " in folded and "(fingerprint " in folded:
        return True
    if any(line in folded for line in _OWN_LINES):
        return True
    return "memory" in (dense := _SPACE.sub("", folded)) and _BLOCK.search(dense) is not None


def carries_away(text: str) -> bool:
    """Whether an address in it has a placeholder for conversation text."""
    return "?" in text and _CARRIER.search(text) is not None


def decoded(text: str) -> Iterator[str]:
    """Yield its base64 and hexadecimal parts that decode to text."""
    for run in _RUN.finditer(text):
        for decode in (_from_hex, _from_base64):
            said = decode(run.group())
            if said is not None:
                yield said
                break


def _from_hex(run: str) -> str | None:
    try:
        return _as_text(bytes.fromhex(run))
    except ValueError:
        return None


def _from_base64(run: str) -> str | None:
    bare = run.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return _as_text(base64.b64decode(bare + "=" * (-len(bare) % 4)))
    except (binascii.Error, ValueError):
        return None


def _as_text(raw: bytes) -> str | None:
    try:
        said = raw.decode("utf-8")
    except UnicodeDecodeError:
        return None
    readable = sum(letter.isprintable() or letter.isspace() for letter in said)
    return said if said and readable >= _READABLE * len(said) else None


_OWN_LINES = tuple(
    fold(line)
    for title in (HEADER, DIRECTIVES, PROFILE, FACTS, CONTEXT, LONG_TERM, SUMMARY, CANONICAL)
    for line in title.splitlines()
)
"""The lines of perdure's own blocks, which nobody else writes."""


TOOL = "tool"  # the result of a tool: a page, a file, a mail
SYSTEM = "system"  # a message of the application to the model
INSTRUCTION = "instruction"  # it gives a model orders, or imitates a part of its prompt
_BY_ROLE = {"tool": TOOL, "function": TOOL, "system": SYSTEM, "developer": SYSTEM}


def suspect(text: str, role: str | None) -> str | None:
    """Return why a text of this role is kept out of prompts, or None: `tool` and `system` by role, else `instruction`.

    A user's own wishes ("always answer in German") are not instructions in this sense. Orders that speak of "the user"
    in the third person, override a model's rules or send a conversation elsewhere are, and so are forged turns, hidden
    letters and encoded text. Deterministic, in time proportional to the text's length.
    """
    of_role = _BY_ROLE.get(role or "")
    if of_role is not None:
        return of_role
    return INSTRUCTION if is_instruction(text) else None


_KNOWN = 2_000
"""Texts whose check is cached, because each message is checked again with every later one; and the maximum characters
of such a text, so that the cache takes some megabytes. Of longer ones only a digest is kept."""
_known_long: dict[bytes, bool] = {}


def is_instruction(text: str) -> bool:
    """Whether a text gives a model orders, whoever wrote it."""
    if len(text) <= _KNOWN:
        return _known(text)
    key = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    found = _known_long.get(key)
    if found is None:
        found = _gives_orders(text)
        if len(_known_long) >= _KNOWN:
            _known_long.clear()
        _known_long[key] = found
    return found


@lru_cache(_KNOWN)
def _known(text: str) -> bool:
    return _gives_orders(text)


def _gives_orders(text: str) -> bool:
    if is_hidden(text) or carries_away(text):
        return True
    folded = fold(text)
    if is_forged(text, folded) or _orders(folded):
        return True
    return _orders(rot13(folded)) or any(_orders(fold(said)) for said in decoded(text))


def _orders(folded: str) -> bool:
    if ordered(tokens(folded)):
        return True
    letters = squeezed(folded)
    return any(phrase in letters for phrase in _squeezed())


@cache
def _squeezed() -> tuple[str, ...]:
    return lines("firewall_squeezed.txt")


# Forgery: whether a memory block in a text was rendered by perdure, or written by somebody else.

_BEGINNING = f"{OPENING}>\n{HEADER}\n"
_MARK = Pattern(r"\n\(fingerprint ([0-9a-f]{16})\)\n\Z")


def is_forgery(text: str) -> bool:
    """Whether a text has delimiters of a memory block without a complete block with its own fingerprint."""
    if OPENING not in text and CLOSING not in text:
        return False
    left = without_genuine(text)
    return OPENING in left or CLOSING in left


def without_genuine(text: str) -> str:
    """Return the text without unchanged blocks that perdure itself rendered."""
    parts: list[str] = []
    end = 0
    while (start := text.find(_BEGINNING, end)) >= 0 and (close := text.find(CLOSING, start)) >= 0:
        body = text[start + len(_BEGINNING) : close]
        mark = _MARK.search(body)
        is_ours = mark is not None and mark.group(1) == fingerprint(body[: mark.start()])
        parts.append(text[end : start if is_ours else close + len(CLOSING)])
        end = close + len(CLOSING)
    return "".join([*parts, text[end:]])


# Provenance: whose words a fact is made of, by the messages that it names and the words that it shares with them.

ASSISTANT = "assistant"
PASTED = "pasted"  # origin of what stands in a user's message behind an order to a model: text that somebody else wrote
BORROWED = 0.5  # share of a fact's words that only tools or orders hold, from which it counts as theirs
_ORIGINS = {"tool": TOOL, "function": TOOL, "system": SYSTEM, "developer": SYSTEM, "assistant": ASSISTANT}
_PIECE = Pattern(r"[^\n.!?。！？]*(?:[.!?。！？]+|\n+|\Z)")
_PASTE = Pattern(r":[ \t]*\n|:\s*[\"'“„«‘]|-{3,}|>>|^[ \t]*>|```|<", re.MULTILINE)
"""Where text by others begins in a message that holds some."""
_WORD = Pattern(r"\w+")
_YEAR = Pattern(r"(?:19|20)\d\d")
PARTS = 64  # parts of a message that are looked at one by one for the first order
LEAST_NUMBER = 3  # digits from which a number says whose it is


@dataclass(frozen=True, slots=True)
class Provenance:
    """Whose words something is made of, and why it is kept out of prompts; None, None: a user's own."""

    origin: str | None = None
    quarantined: str | None = None

    @property
    def is_own(self) -> bool:
        """Whether a user said it themself."""
        return self.origin is None and self.quarantined is None


def origin_of(role: str | None) -> str | None:
    """Whose words a message of this role holds, where these are not a user's."""
    return _ORIGINS.get(role or "")


class Hearing:
    """Tells whose words the facts of one conversation are made of."""

    def __init__(self, messages: Sequence[Message], forged: Collection[int] = ()) -> None:
        """`forged` are positions of messages that a forged memory block was taken out of."""
        self._messages = messages
        self._forged = forged
        self._suspicions = [
            suspect(message.content, message.role) or (INSTRUCTION if place in forged else None)
            for place, message in enumerate(messages)
        ]

    def of(self, text: str, sources: Collection[int]) -> Provenance:
        """The provenance of a fact from messages at these positions; of one without, from all of them.

        A fact whose messages are all a tool's is a tool's, and so is one that shares its names, its numbers or half of
        its words with tools alone: a model that read the conversation may have named the wrong message.
        """
        heard = [place for place in sources if place < len(self._messages)] or range(len(self._messages))
        origins = {origin_of(self._messages[place].role) for place in heard}
        origin = next((each for each in (None, ASSISTANT, TOOL, SYSTEM) if each in origins), None)
        if origin in (TOOL, SYSTEM):
            return Provenance(origin, origin)
        if suspect(text, None) is not None:
            return Provenance(origin, INSTRUCTION)
        for borrowed, reason, whose in self._untrusted:
            if self._borrows(text, borrowed):
                return Provenance(whose, reason)
        return Provenance(origin)

    def is_users(self, text: str) -> bool:
        """Whether a user's own words hold at least half of the text's."""
        said = _content(text)
        return bool(said) and sum(word in self._own for word in said) >= BORROWED * len(said)

    def _borrows(self, text: str, others: set[str]) -> bool:
        said = _content(text)
        borrowed = {word for word in said if word in others and word not in self._own}
        return len(borrowed) >= BORROWED * len(said) > 0 or not borrowed.isdisjoint(_telling(text))

    @cached_property
    def _own(self) -> set[str]:
        """The words of users, up to where they paste what others wrote."""
        own: set[str] = set()
        for place, message in enumerate(self._messages):
            if message.role == "user":
                own |= _words_of(message.content[: self._ends(place)])
        return own

    def _ends(self, place: int) -> int:
        """Where the user's own words end in a message."""
        content = self._messages[place].content
        if self._suspicions[place] is None:
            return len(content)
        return 0 if place in self._forged else len(own_words(content))

    @cached_property
    def _untrusted(self) -> list[tuple[set[str], str, str]]:
        """The words of tools, of the application, and of pasted orders, each with what it makes of a fact."""
        found = []
        for reason, whose in ((TOOL, TOOL), (SYSTEM, SYSTEM), (INSTRUCTION, PASTED)):
            theirs: set[str] = set()
            for place, message in enumerate(self._messages):
                if self._suspicions[place] == reason:
                    theirs |= _words_of(message.content[self._ends(place) if message.role == "user" else 0 :])
            if theirs:
                found.append((theirs, reason, whose))
        return found


def own_words(message: str) -> str:
    """Of a user's message with orders in it, what stands before them and before what is quoted or pasted."""
    end = start = 0
    for piece in _PIECE.finditer(message):
        if piece.end() - start < len(message) / PARTS and piece.end() < len(message):
            continue  # so many tiny pieces that each takes longer than all of them together
        if suspect(message[start : piece.end()], None) is not None:
            end = start
            break
        start = piece.end()
    paste = _PASTE.search(message, 0, end)
    return message[: paste.start() if paste else end]


def _words_of(text: str) -> set[str]:
    return set(tokens(fold(text)))


def _content(text: str) -> set[str]:
    """The words of a fact that say something."""
    passed = words("recall_stopwords.txt")
    return {word for word in _words_of(text) if word not in passed and word not in ("user", "users")}


def _telling(text: str) -> set[str]:
    """The names and numbers of a fact, without its first word and without times."""
    times = words("time_words.txt")
    found: set[str] = set()
    for name in _WORD.finditer(text):
        if not name.start() or name.group().islower():
            continue
        for word in _words_of(name.group()):
            is_short = word.isdigit() and (len(word) < LEAST_NUMBER or _YEAR.fullmatch(word))
            if not is_short and word not in times:
                found.add(word)
    return found
