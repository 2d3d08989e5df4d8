"""From what was typed to plain text: quotes, code and links set aside, chat spelling made regular.

What must not be altered (quotations, links, inline code) becomes one private-use character each, which `restore` turns
back; so nothing downstream can put it into the third person or split it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from perdure.domain.text.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.curation.rules.extraction import coreference, grammar
from perdure.pipeline.curation.rules.memo import per_text
from perdure.pipeline.lexicon import word_set

# Emoji: those that stand for a word are one, those that adorn a sentence are none.
#
# "I love 🍕" lacks its object without the emoji; "I love pizza 🍕" is whole, and its emoji tells nothing new.

_ONE = (
    r"(?:[\U0001f1e6-\U0001f1ff]{2}|[0-9#*]\ufe0f?\u20e3|[\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]"
    r"[\ufe0f\U0001f3fb-\U0001f3ff]*[\U000e0020-\U000e007f]*)"
)
_RUN = Pattern(rf"{_ONE}(?:\u200d?{_ONE})*")
_MOOD = Pattern(
    r"^(?:[\u2728\u2764\u2763\U0001f389\U0001f38a\U0001f440-\U0001f450\U0001f493-\U0001f49f\U0001f4a5-\U0001f4af"
    r"\U0001f525\U0001f5a4\U0001f600-\U0001f64f\U0001f90c-\U0001f92f\U0001f932-\U0001f93e\U0001f970-\U0001f97a"
    r"\U0001f9e1\U0001f3fb-\U0001f3ff\ufe0f\u200d\u2640\u2642])+$"
)
"""Faces, hands, hearts and sparks: what follows a verb says a mood, not an object."""
_BEFORE = Pattern(r"([\w']+) ?$")
_AFTER = Pattern(r" ?([\w']+)")
_LINKS = frozenset({"is", "are", "was", "were"})


def read(text: str, keep: Callable[[str], str]) -> str:
    """The text with what `keep` makes of each emoji that stands for a word, and without the others."""

    def one(match: re.Match[str]) -> str:
        text, start, end = match.string, match.start(), match.end()
        after = _AFTER.match(text, end)
        following = after.group(1) if after else ""
        opens = not text[end : end + 3].strip(" ") or text[end : end + 3].lstrip(" ")[:1] == "\n"
        if _stands_for_a_word(match.group(), text[max(0, start - 40) : start], following):
            return keep(match.group()) + (". " if opens or _opens_sentence(following) else "")
        return ". " if opens or text[end : end + 3].lstrip(" ")[:1].isupper() else " "

    return _RUN.sub(one, text).replace("\u200d", "").replace("\ufe0f", "")


def _opens_sentence(word: str) -> bool:
    return word[:1].isupper() and word.lower() in word_set("emoji.openers")


def _stands_for_a_word(emoji: str, before: str, after: str) -> bool:
    found = _BEFORE.search(before)
    if found is None:
        return after.lower() in _LINKS and not before.strip(" ").endswith((",", ":"))
    word = found.group(1).lower()
    if word in _wanting() or word.isdigit():
        return True
    noun = before[: found.start()].rsplit(None, 1)[-1:]  # "as a nurse", not "I nurse"
    if noun and noun[0].lower() in lexicon.words("determiners.txt"):
        return False
    return grammar.is_form(word) and _MOOD.match(emoji) is None


@cache
def _wanting() -> frozenset[str]:
    """Words after which something must come: "in", "my", "two", "favourite"."""
    goes_on = frozenset(lexicon.pairs("wrapping.tsv")["goes_on"].split())
    return (goes_on | lexicon.words("prepositions.txt") | word_set("emoji.counts")) - word_set("emoji.complete")


FIRST_MARK = 0xE000
MAX_MARKS = 6000  # the private-use area ends there

_MARKS = Pattern(f"[{chr(FIRST_MARK)}-{chr(FIRST_MARK + MAX_MARKS)}]")
_CONTROL = Pattern(r"[\x00-\x08\x0e-\x1f\x7f]")
"""What no one types and no fact should hold: it is in messages that a program pasted, and stays in those alone."""
_LEADING = Pattern(f"^(?:[{chr(FIRST_MARK)}-{chr(FIRST_MARK + MAX_MARKS)}]\\s*)+")
_QUOTES = str.maketrans(
    {
        "’": "'",
        "‘": "'",
        "´": "'",
        "`": "`",
        "“": '"',
        "”": '"',
        "„": '"',
        "«": '"',
        "»": '"',
        "\u00a0": " ",
        "\u200b": None,
        "\ufeff": None,
        "\t": " ",
        "—": " - ",
        "–": "-",
        "\r": "\n",
        "\u2028": "\n",
        "\u2029": "\n",
        "•": "\n",
    }
)
_PROTECTED = Pattern(
    r"""https?://[^\s<>]{1,2000}|\b[\w.+-]{1,64}@[\w-]{1,64}\.[\w.-]{1,64}|`[^`\n]{1,400}`|"[^"\n]{1,2000}"|"""
    r"""(?<![\w'])'(?=\S)[^'\n]{1,400}(?:'(?=\w)[^'\n]{1,400}){0,6}'(?![\w'])"""
)
_OBJECT = Pattern(r"\{[^{}\n]{0,2000}[\"':=][^{}\n]{0,2000}\}")
_FENCE = Pattern(r"```[\s\S]{0,100000}?(?:```|\Z)")
_CODE_LINE = Pattern(
    r"[{};]\s*$|=>|::|</?\w+>|^\s*(?:SELECT|INSERT INTO|UPDATE \w+ SET|DELETE FROM|CREATE TABLE|import |"
    r"from \w+ import|"
    r"def \w+\(|class \w+[:(]|const |let \w+ =|var \w+ =|public |private |function \w*\(|return |print\(|console\.|"
    r"Traceback|File \"|\w+(?:Error|Warning):|\w+Exception|#include|#!/|\$ |>>> |npm |pip install|git \w+ |docker |"
    r"curl |sudo |ssh )|"
    r"^\s*\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d|^\s*(?:ERROR|WARN(?:ING)?|INFO|DEBUG|FATAL|TRACE|CRITICAL)\b[ :\[]|"
    r"^\s{2,}[\w-]+:(?: \S+)?\s*$|^\s*[A-Z][A-Z_]{4,}[:=] ?\S+\s*$|^(?:Exception in thread|Caused by:)|"
    r"\w+\([^()]*\)\s*[;{]|\w+\.\w+\(|^\s*[\w.]+\s*=\s*(?:['\"\[{(]|\w+[.(])|^\s*at \w+[.(]|"
    r"^\s*\[[\w.-]+\]\s*$|^\s*[a-z_]+ ?= ?[\w./-]+\s*$|^\s*>"
)
_SELF = Pattern(r"\b(?:i|i'm|im|ive|i've|my|we|our|me)\b", re.I)
_TITLES = Pattern(r"\b(Mr|Mrs|Ms|Dr|Prof|St|Sr|Jr|Mt|Rd|Ave|No|vs|etc|approx|e\.g|i\.e|Ph\.D|Nr)\.(?=\s*\S)")
_LAUGH = Pattern(r"(?<=\w)[,.]? (?:lo+l+|lmf?ao+|ha(?:ha)+h?|he(?:he)+|rofl)\b[.,!]* ?", re.I)
_WORD = Pattern(r"(?<![\w'@#/.-])[A-Za-z0-9'/][\w'-]*(?:/(?!\w)|/o\b)?")


@dataclass(slots=True)
class Cleaned:
    """Plain text, and what its marks stand for."""

    text: str
    kept: list[str] = field(default_factory=list)

    def restore(self, text: str) -> str:
        """The text with every mark replaced by what it stood for."""
        if not self.kept:
            return text
        return _MARKS.sub(lambda m: self._kept(m.group()), text)

    def _kept(self, mark: str) -> str:
        place = ord(mark) - FIRST_MARK
        return self.kept[place] if place < len(self.kept) else ""


def without_marks(text: str) -> str:
    """The text without its quotations, links and code."""
    return _MARKS.sub(" ", text)


def marks_as(text: str, word: str) -> str:
    """The text with a word for each quotation, link or code in it, but for those at its beginning, which go."""
    return _MARKS.sub(word, _LEADING.sub("", text))


def clean(content: str, *, english: bool = True) -> Cleaned:
    """The message as plain text in regular spelling; linear in its length, and never raises.

    With `english` false only marks and quotes are treated: chat spelling and contractions are those of English.
    """
    known = _clean(content, english)
    return Cleaned(known.text, list(known.kept))


@per_text(256)
def _clean(content: str, english: bool) -> Cleaned:
    text = unicodedata.normalize("NFC", content.encode("utf-8", "replace").decode("utf-8"))
    text = _CONTROL.sub("", _MARKS.sub("", text)).translate(_QUOTES)
    text = _OBJECT.sub(" ", _FENCE.sub("\n", text))
    text = "\n".join(line for line in text.split("\n") if not is_code(line))
    cleaned = Cleaned("")
    text = _PROTECTED.sub(lambda m: _protect(m.group(), cleaned.kept), text)
    text = read(text, lambda each: _protect(each, cleaned.kept))
    if not english:
        cleaned.text = text
        return cleaned
    text = _TITLES.sub(lambda m: m.group(1).replace(".", ""), text)
    text = _LAUGH.sub(". ", text)
    text = _WORD.sub(_spell, text)
    cleaned.text = expand(_possessives(text))
    return cleaned


def is_code(line: str) -> bool:
    """Whether a line is of a program, a log or a quoted mail, and so nothing that its sender says."""
    head = line[:400]
    if re.search(r"\s--?\w[\w-]*=|\|\s*(?:wc|grep|awk|sed|sort|head|tail)\b", head):
        return True
    if not _CODE_LINE.search(head):
        return False
    bare = re.sub(r"\"[^\"]*\"|'[^']*'", "", head)
    return not _SELF.search(bare) or bool(re.search(r"[{}]|=>|::|</\w+>|\);", bare))


def _protect(span: str, kept: list[str]) -> str:
    if len(kept) >= MAX_MARKS:
        return span
    kept.append(span)
    return chr(FIRST_MARK + len(kept) - 1)


@cache
def _spelling() -> dict[str, str]:
    return lexicon.pairs("spelling.tsv")


def _spell(match: re.Match[str]) -> str:
    word = match.group()
    low = word.lower()
    plain = _spelling().get(low)
    if plain is None:
        return word
    if len(word) <= 2 and word.isupper() and low not in {"i", "im", "u", "ur"}:
        return word  # an abbreviation: "UR", "N"
    return word if _is_named(match, plain) else plain


_OPENS_SENTENCE = Pattern(r"(?:^|[.!?\n])[\s\"'(*-]*$")


def _is_named(match: re.Match[str], plain: str) -> bool:
    """Whether a word of chat spelling is a name: it has a capital inside a sentence that is not all in capitals.

    A contraction ("Dont", "Im") and what always has a capital ("Xmas") are no names.
    """
    text, start, word = match.string, match.start(), match.group()
    is_contraction = "'" in plain and "'" not in word
    if not word[0].isupper() or is_contraction or plain[0].isupper() or word.lower() in {"u", "ur"}:
        return False
    return _OPENS_SENTENCE.search(text, max(0, start - 12), start) is None and not text.isupper()


# ------------------------------------------------------------------ apostrophes

_BE_NEXT = (
    r"(?:a|an|the|not|called|named|my|our|his|her|on|in|at|from|with|by|near|like|mine|been|because|all|also|only|"
    r"just|still|now|always|very|really|so|too|almost|about|over|under|due|off|into|out|going|getting|been|got|gone|"
    r"getting|having|coming|moving|turning|working|living|doing|making|taking|\d(?!\d*(?:st|nd|rd|th)\b)[\w.,:]*)"
)
_LOOSE_KIN = Pattern(r"\b([Mm]y|[Oo]ur|[Hh]is|[Hh]er|[Tt]heir)((?: \w{1,30})?) ([a-zé-]{1,30})s (?=(\S{1,60}))")
_ITS = Pattern(rf"\b([Ii])ts (?={_BE_NEXT}\b|for\b|my\b|to\b|pronounced|spelled)")
_LOOSE_S = Pattern(
    r"^((?:[\w-]{1,30} ){0,2})(?!(?i:is|was|has|his|this|its|us|as|yes|always|plus|thus)\b)([A-Za-z][a-z]{2,29})s "
    r"(?=(gone|been|got|called|named|broken|moved)\b)",
    re.M,
)
_TILL = Pattern(r"(?<!the )(?<!a )(?<!my )\btill\b(?! receipt)")
_S_BE = Pattern(r"\b([A-Za-zÀ-ÿ][\w-]{0,40})'s (?=(\S{1,60}))")
_PRONOUN_S = word_set("cleaning.pronoun_s")
_HAS_NEXT = word_set("cleaning.has_next")
_NOUN_ING = word_set("cleaning.noun_ing")


def _possessives(text: str) -> str:
    """Apostrophes that lazy typing left out, where only one reading makes sense ("my husbands allergic")."""
    text = _TILL.sub("until", text)
    text = _LOOSE_KIN.sub(_loose_kin, text)
    text = _ITS.sub(lambda m: f"{m.group(1)}t is ", text)
    return _LOOSE_S.sub(_loose_s, text)


def _loose_s(match: re.Match[str]) -> str:
    """ "dads been ill": of a capitalised word the s is its own ("Lars", "the Smiths"), but for a noun in front."""
    before, noun, follower = match.groups()
    kin, low = lexicon.pairs("kin.tsv"), noun.lower()
    if noun[0].isupper() and (before or not coreference.is_known_word(low)):
        return match.group()
    if follower in {"got", "moved"} and (low not in kin or f"{low}s" in kin):
        return match.group()  # "my parents moved", "the prices got worse"
    return f"{before}{noun}'s "


_POSSESSED = word_set("cleaning.possessed")


def _loose_kin(match: re.Match[str]) -> str:
    owner, middle, noun, follower = match.group(1), match.group(2), match.group(3), match.group(4).lower().strip(",.!?")
    kin = lexicon.pairs("kin.tsv")
    if noun not in kin and noun not in lexicon.words("roles.txt") and noun not in {"cat", "dog"}:
        return match.group()
    if kin.get(noun + "s") == "p" and noun in word_set("cleaning.plural_kin"):
        return f"{owner}{middle} {noun}s' " if follower in _POSSESSED else match.group()
    plural = follower in grammar.bases() and follower not in lexicon.words("nounish.txt") - {"play", "work", "start"}
    plural = (
        plural
        or follower in grammar.AUXILIARIES
        or follower in grammar.simple_pasts()
        or follower in word_set("cleaning.joining")
    )
    counted = middle.strip().lower()
    if plural or counted in word_set("cleaning.counting") or counted.isdigit():
        return match.group()
    return f"{owner}{middle} {noun}'s "


_EXPANSIONS = (
    # A time of day is one word: "at 9 am" is no statement about who speaks.
    (Pattern(r"\b((?:1[0-2]|0?[1-9])(?:[:.][0-5]\d)?) (?:am|AM|a\.m\.)(?![\w'])"), r"\1am"),
    (Pattern(r"\b([Ii])'m\b"), "I am"),
    (Pattern(r"\b([Ww]e|[Yy]ou|[Tt]hey|[Ww]ho|[Tt]here)'re\b"), r"\1 are"),
    (Pattern(r"\b([Ii]|[Ww]e|[Yy]ou|[Tt]hey|[Ww]ho|[Cc]ould|[Ww]ould|[Ss]hould)'ve\b"), r"\1 have"),
    (Pattern(r"\b([Ii]|[Ww]e|[Yy]ou|[Tt]hey|[Hh]e|[Ss]he|[Ii]t|[Tt]hat)'ll\b"), r"\1 will"),
    (Pattern(r"\b([Ii]|[Ww]e|[Yy]ou|[Tt]hey|[Hh]e|[Ss]he)'d (?=better\b|been\b|had\b|gone\b|forgotten\b)"), r"\1 had "),
    (Pattern(r"\b([Ii]|[Ww]e|[Yy]ou|[Tt]hey|[Hh]e|[Ss]he|[Ii]t)'d\b"), r"\1 would"),
    (Pattern(r"(?:^|(?<=[.!?\n] ))[Ii]d (?=like|love|rather|prefer|say|want)", re.M), "I would "),
    (
        Pattern(r"(?:^|(?<=[.!?,\n] ))[Ww]ere (?=on\b|in\b|at\b|not\b|a\b|all\b|\w+ing\b|both\b|from\b)", re.M),
        "we are ",
    ),
    (Pattern(r"\bcannot\b"), "can't"),
    (Pattern(r"\bI,? too,? (?=\w)"), "I also "),
)


def expand(text: str) -> str:
    """Contractions of pronouns and of is and has written out; possessives and n't stay."""
    for pattern, full in _EXPANSIONS:
        text = pattern.sub(full, text)
    return _S_BE.sub(_expand_s, text)


_OF_SOMEBODY = Pattern(
    r"(?:\b(?:to|at|from|of|with|in|near|like) (?:(?:my|his|her|our|their|your|the) )?|\b(?:St|Saint) )$"
)
"""What stands before a name that owns something left unsaid: "at Ana's in Cork", "St Brigid's in Cork"."""


def _expand_s(match: re.Match[str]) -> str:
    word, follower = match.group(1), match.group(2)
    low, after = word.lower(), follower.lower().strip(",.!?;:)")
    if low == "let" or _OF_SOMEBODY.search(match.string, max(0, match.start() - 16), match.start()):
        return match.group()
    if after in _HAS_NEXT and (after != "left" or low in _PRONOUN_S):
        return f"{word} has "
    if low in _PRONOUN_S:
        return f"{word} is "
    being = (
        re.fullmatch(_BE_NEXT, after)
        or after in lexicon.words("states.txt")
        or (after in grammar.ings() and after not in _NOUN_ING)
        or after in lexicon.words("moods.txt") - {"old", "new", "back", "home", "late", "good", "done", "well", "cold"}
        or after in {"up", "down", "ready", "strict", "retired", "allergic", "coming", "moving", "scared"}
    )
    if being and after not in {"first", "second", "next", "new", "old"}:
        return f"{word} is "
    return match.group()


# Other languages: Spanish, Portuguese, Italian, French, German and Chinese glossed into plain English, word by word.

LONGEST_PHRASE = 5
"""Words of the longest phrase in the tables."""
LANGUAGES = ("es", "pt", "it", "fr", "de")
NOTHING = "-"
"""Gloss of a word that English leaves out."""

_HAN = Pattern(r"[\u3400-\u9fff]")
_KANA = Pattern(r"[\u3040-\u30ff\uac00-\ud7af]")
_ELISION = Pattern(r"\b([ldjnmtsc]|qu|un|dell|nell|sull|all|dall|quest)'(?=\w)", re.I)
_CAPITAL_INSIDE = Pattern(r"(?<=[^\W\d_A-Z][ ,])\s*([A-Z][^\W\d_]+)")
_EDGES = '.,!?;:()"¿¡'


@cache
def _votes() -> dict[str, frozenset[str]]:
    return {language: frozenset(words.split()) for language, words in lexicon.pairs("language_votes.tsv").items()}


@per_text(256)
def language_of(text: str, expected: str = "") -> str:
    """es, pt, it, fr, de or zh where the text is in that language, else ""; `expected` is the conversation's so far."""
    sample = without_marks(re.sub(r"\"[^\"\n]*\"|```[\s\S]*?```", " ", text[:1500])).replace("\u2019", "'")
    if _HAN.search(sample) and not _KANA.search(sample):
        return "zh"
    words = [word.lower() for word in re.findall(r"[^\W\d_]+(?:'[^\W\d_]+)?", sample)][:120]
    if not words:
        return expected if expected != "zh" else ""
    split = [
        part for word in words for part in ([word.split("'")[0] + "'", word.split("'")[1]] if "'" in word else [word])
    ]
    scores = {
        name: sum(word in known for word in words) + sum(word in known for word in split if word not in words)
        for name, known in _votes().items()
    }
    names = {name.lower() for name in _CAPITAL_INSIDE.findall(sample)}
    for word in words[:40]:
        if len(word) > 4 and not coreference.is_known_word(word):
            for name in LANGUAGES:
                # "lives in Porto" is no Italian; German alone writes its nouns so.
                scores[name] += word in _phrases(name) and (name == "de" or word not in names)
    english = scores.pop("en")
    best = max(scores, key=lambda name: (scores[name], name == expected))
    if expected in scores and scores[expected] >= english and (scores[expected] or not english):
        return expected if scores[expected] >= scores[best] - 1 else best
    needed = 2 if len(words) > 3 else 1
    return best if scores[best] >= needed and scores[best] > english and scores[best] >= len(words) / 6 else ""


@cache
def _phrases(language: str) -> dict[str, str]:
    return {left: "" if right == NOTHING else right for left, right in lexicon.pairs(f"foreign_{language}.tsv").items()}


def gloss(text: str, language: str) -> str:
    """The text in English words as far as the tables go."""
    if language == "zh":
        return _tidy("\n".join(_han(line) for line in text.split("\n")))
    return "\n".join(_tidy(_before_and_after(line, language)) for line in text.split("\n"))


_NOUN = Pattern(r"\b(?:an?|the|my|our|his|her|their|no|this) ([A-ZÀ-Þ][^\W\d_]+)")


def unglossed(said: str, glossed: str, language: str) -> set[str]:
    """The words, in small letters, that the gloss of a text has taken over as they were and that name nobody.

    German writes all nouns with a capital: one behind an article is no name.
    """
    if language == "zh":
        return set()
    source = set(re.findall(r"[^\W\d_]{3,}", said))
    small = {word for word in re.findall(r"[^\W\d_]{3,}", glossed) if word.islower()}
    nouns = {noun.lower() for noun in _NOUN.findall(glossed) if noun in source} if language == "de" else set()
    return {word for word in small & source if not coreference.is_known_word(word)} | nouns


def _before_and_after(line: str, language: str) -> str:
    for pattern, change in _ahead(language):
        line = pattern.sub(change, line)
    line = _words(line, language).replace("_", " ")
    for pattern, change in _behind():
        line = pattern.sub(change, line)
    return line


def _words(line: str, language: str) -> str:
    table = _phrases(language)
    tokens = _ELISION.sub(r"\1' ", line).split()
    out: list[str] = []
    place = 0
    while place < len(tokens):
        for size in range(min(LONGEST_PHRASE, len(tokens) - place), 0, -1):
            group = tokens[place : place + size]
            if size > 1 and any(part[-1] in ",.!?;:" for part in group[:-1]):
                continue
            key = " ".join(group).lower().strip(_EDGES)
            found = table.get(key)
            if found is None and "' " in key:
                found = table.get(key.replace("' ", "'"))
            if found is None or (size == 1 and _proper(group[0], place, out)):
                continue
            out.append(_edges(group, found))
            break
        else:
            size = 1
            out.append(tokens[place])
        place += size
    return " ".join(part for part in out if part)


def _proper(word: str, place: int, out: list[str]) -> bool:
    """A capitalised word inside a sentence is a name, in German too if the table has it only by chance."""
    bare = word.strip(_EDGES)
    return (
        place > 0
        and bare[:1].isupper()
        and len(bare) > 1
        and out[-1:] != []
        and out[-1][-1:] not in ".!?:"
        and bare.lower() in _NAMES_TOO
    )


_NAMES_TOO = word_set("foreign.names_too")


def _edges(group: list[str], found: str) -> str:
    first, last = group[0], group[-1]
    head = first[: len(first) - len(first.lstrip(_EDGES))].replace("¿", "").replace("¡", "")
    tail = last[len(last.rstrip(_EDGES)) :]
    return f"{head}{found}{tail}"


def _han(line: str) -> str:
    for pattern, change in _ahead("zh"):
        line = pattern.sub(change, line).replace("_", " ")
    table = _phrases("zh")
    out: list[str] = []
    place = 0
    while place < len(line):
        for size in range(min(6, len(line) - place), 0, -1):
            found = table.get(line[place : place + size])
            if found is not None:
                out.append(f" {found} ")
                break
        else:
            size = 1
            char = line[place]
            out.append(_HAN_MARKS.get(char, char))
        place += size
    text = " ".join("".join(out).split())
    for pattern, change in _HAN_FRAMES:
        text = pattern.sub(change, text)
    return text


_HAN_MARKS = {
    **{mark: f"{mark} " for mark in ",?!:;"},
    **{chr(ord(mark) + 0xFEE0): f"{mark} " for mark in ",?!:;"},  # the wide forms, which Chinese is written with
    "、": " and ",
    "。": ". ",
}
_HAN_FRAMES = (
    (Pattern(r"\bis allergic to ([^,.?]{1,30}?) (?=,|\.|\?|$)"), r"is allergic to \1 "),
    (Pattern(r"\bmy (\w+) (?=[A-Z][a-z]+ )"), r"my \1 "),
    (Pattern(r"(?<=[A-Za-z]) (\d+) years old"), r" is \1 years old"),
    (Pattern(r"\bis is\b"), "is"),
    (Pattern(r"\bam is\b"), "am"),
    (Pattern(r"\b(\d+) years (\d+) month"), r"\1"),
)


@cache
def _ahead(language: str) -> tuple[tuple[Pattern, str], ...]:
    return tuple(
        (Pattern(left, re.I), right if right.startswith("I_") else right.replace("_", " "))
        for left, right in lexicon.pairs(f"foreign_{language}_frames.tsv").items()
    )


@cache
def _behind() -> tuple[tuple[Pattern, str], ...]:
    return tuple(
        (Pattern(left), "" if right == NOTHING else right) for left, right in lexicon.pairs("foreign_after.tsv").items()
    )


def _tidy(line: str) -> str:
    line = re.sub(r"\s+([,.!?;:])", r"\1", line)
    line = re.sub(r"[¿¡]", "", line)
    return " ".join(line.split())
