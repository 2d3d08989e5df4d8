"""Where the verb of a clause stands and what a clause begins with, by word lists and neighbours; no tagger."""

from __future__ import annotations

from functools import cache

from perdure.domain.text.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.lexicon import word_set

# English verbs: which form a word is, and the form that a third person takes.
#
# Forms are derived from two word lists by the spelling rules of regular verbs (final e dropped, y to i, the last
# consonant doubled after a single stressed vowel); a word outside the lists is never called a verb.

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


PUNCTUATION = ".,!?;:()[]\"'*…"
FIRST = frozenset({"i", "we"})
SUBJECTS = frozenset(["i", "we", "he", "she", "they", "it", "you"])
POSSESSIVES = frozenset(["my", "our", "his", "her", "their", "its", "your"])
RELATIVES = frozenset(["who", "which", "that", "where", "when", "whose"])
PLURAL_SUBJECTS = word_set("grammar.plural_subjects")
_BLOCKERS_EXTRA = word_set("grammar.blockers_extra")


def bare(token: str) -> str:
    """The token in lower case without punctuation around it."""
    return token.strip(PUNCTUATION).lower()


@cache
def _before_noun() -> frozenset[str]:
    prepositions = lexicon.words("prepositions.txt") - {"on", "off", "up", "down", "out", "over", "in"}
    return lexicon.words("determiners.txt") - {"all", "both", "that", "this", "each"} | prepositions | _BLOCKERS_EXTRA


def is_time_word(word: str) -> bool:
    """Whether the word names a day, a month or a stretch of time."""
    return word in lexicon.words("time_words.txt") or word.rstrip("s") in lexicon.words("time_words.txt")


def is_name(token: str) -> bool:
    """Whether the token looks like a proper name: capitalised, and not one of the words that always may be."""
    word = token.strip(PUNCTUATION)
    if word.endswith("'s"):
        word = word[:-2]
    if len(word) < 2 or not word[0].isupper() or word in lexicon.words("not_names.txt"):
        return False
    return word.lower() not in lexicon.pairs("kin.tsv")


def is_title(token: str) -> bool:
    """Whether the token opens a name, in whatever letters: "mr business"."""
    return bare(token) in word_set("grammar.titles")


def is_number(token: str) -> bool:
    """Whether the token begins with a digit, also behind a currency sign."""
    word = token.strip(PUNCTUATION).lstrip("$€£#~<>+-")
    return bool(word) and word[0].isdigit()


def find_verb(parts: list[str], start: int = 0, *, names: frozenset[str] = frozenset()) -> int:
    """The place of the finite verb, or -1; `names` are lower-case words known to be persons."""
    low = [bare(part) for part in parts]
    skip = False
    weak = -1
    for place in range(start, min(len(low), start + 30)):
        word = low[place]
        if word in RELATIVES and place > start and (word != "that" or place + 1 < len(low)):
            skip = True
            continue
        strength = _strength(low, parts, place, start, names)
        if not strength:
            continue
        if skip:
            skip = False
            continue
        if strength == 2:
            return place
        if weak < 0:
            weak = place
        elif weak >= 0 and place - weak > 6:
            break
    return weak


def _strength(low: list[str], parts: list[str], place: int, start: int, names: frozenset[str]) -> int:
    word = low[place]
    if word == "may" and (
        place + 1 == len(low) or (place and (low[place - 1] in _MONTH_BEFORE or is_number(parts[place - 1])))
    ):
        return 0
    if word in AUXILIARIES:
        return 0 if place > start and low[place - 1] in {"the", "a", "an"} else 2
    if place == start:
        return 0
    before = low[place - 1]
    if before in _before_noun() or before.endswith("'s") or parts[place][0].isupper():
        return 0
    noun = word in lexicon.words("nounish.txt")
    if word in thirds():
        if before in {"i", "we", "you", "they"}:
            return 2
        return 1 if noun or before in lexicon.words("states.txt") else 2
    if word in simple_pasts():
        participle = place + 1 < len(low) and word.endswith("ed") and low[place + 1] not in _after_past()
        return 1 if noun or (participle and is_number(before)) else 2
    if word in bases():
        plural = before in PLURAL_SUBJECTS or (before.endswith("s") and not before.endswith("ss")) or before in names
        plural = plural or (place - start > 2 and low[place - 2] == "and")
        plural = plural or (place - start > 3 and low[place - 2] == "no" and "and" in low[start:place])
        plural = plural or (before in lexicon.words("adverbs.txt") and _plural_subject(low[start:place]))
        return (1 if noun else 2) if plural else 0
    return 0


_MONTH_BEFORE = word_set("grammar.month_before")


@cache
def _after_past() -> frozenset[str]:
    return lexicon.words("prepositions.txt") | lexicon.words("determiners.txt") | lexicon.words("adverbs.txt")


def _plural_subject(before: list[str]) -> bool:
    for word in reversed(before):
        if word not in lexicon.words("adverbs.txt"):
            return word in PLURAL_SUBJECTS or (word.endswith("s") and not word.endswith("ss"))
    return False


def subject_of(parts: list[str]) -> str:
    """What kind of subject the clause opens with: first, pronoun, noun, name, or "" for none."""
    place = skip_adverbials(parts)
    if place >= len(parts):
        return ""
    head = bare(parts[place])
    if head in FIRST or (head in {"mine", "ours"} and place + 1 < len(parts)):
        return "first"
    if head in SUBJECTS or (head in {"this", "that", "these", "those"} and _verb_next(parts, place)):
        return "pronoun"
    if _opens_with_verb(parts, place) or (head in _BEFORE_VERB and find_verb(parts, place) == place + 1):
        return ""
    verb = find_verb(parts, place)
    if verb > place:
        return "name" if is_name(parts[place]) or is_title(head) else "noun"
    return ""


_BEFORE_VERB = frozenset(["nothing", "no", "not", "never", "always", "rarely", "seldom", "still"])
"""Words that open a clause without a subject, right before its verb ("never got on with aubergine")."""


def _opens_with_verb(parts: list[str], place: int) -> bool:
    """ "met a woman who knows ...", "training for ...": the first word is the verb, whatever verbs follow."""
    head = bare(parts[place])
    after = bare(parts[place + 1]) if place + 1 < len(parts) else ""
    if head in {"got", "getting", "gotten"} and after in pasts():
        return True
    if head == "been":
        return after in ings() or after in pasts() or after in lexicon.words("prepositions.txt")
    if head in simple_pasts():
        noun = head in lexicon.words("nounish.txt") or head in word_set("grammar.also_nouns")
        determined = (
            after in lexicon.words("determiners.txt")
            or after in POSSESSIVES
            or after in {"to", "from", "into", "up", "out", "off", "me", "it", "him", "her", "them", "back", "with"}
        )
        behind = not noun and (after in lexicon.words("prepositions.txt") or is_number(after))
        return determined or behind or (head == "used" and after == "to")
    if head in lexicon.words("statement_verbs.txt") & bases() and after in {"to", "a", "an", "the"} | POSSESSIVES:
        return head not in lexicon.words("nounish.txt") or after != "to"
    return (
        head in ings()
        and (after in POSSESSIVES or after in {"a", "an", "for", "to", "with", "from", "at", "in", "on", "about", "up"})
        and find_verb(parts, place) < 0
    )


def _verb_next(parts: list[str], place: int) -> bool:
    return place + 1 < len(parts) and bare(parts[place + 1]) in AUXILIARIES | set(thirds())


_TIME_OPENERS = word_set("grammar.time_openers")


def skip_adverbials(parts: list[str]) -> int:
    """Where the clause proper begins, behind adverbs and a time phrase ("yesterday", "on mondays", "in 2019")."""
    place = 0
    adverbs = lexicon.words("adverbs.txt")
    while place < len(parts):
        head = bare(parts[place])
        if head in {"yesterday", "today", "tomorrow", "tonight", "nowadays", "lately"} or (
            head in adverbs and head not in {"all", "both", "each", "myself", "first", "last", "never", "tend", "still"}
        ):
            if head in word_set("grammar.attributive") and _noun_next(parts, place):
                return place
            place += 1
            continue
        end = _time_phrase(parts, place)
        if end == place:
            return place
        place = end
    return 0


def _noun_next(parts: list[str], place: int) -> bool:
    """Whether a noun comes right behind a word: "half marathon" is a phrase, "half the team" and "half asleep" not."""
    after = bare(parts[place + 1]) if place + 1 < len(parts) else ""
    others = ("determiners.txt", "prepositions.txt", "adverbs.txt", "states.txt", "moods.txt")
    if not after or after in SUBJECTS | POSSESSIVES | AUXILIARIES or is_number(after):
        return False
    form = (after in pasts() or after in ings() or after in thirds()) and after not in lexicon.words("nounish.txt")
    return not form and not any(after in lexicon.words(name) for name in others)


def _time_phrase(parts: list[str], place: int) -> int:
    head = bare(parts[place])
    if head in {"before", "after"} and place + 2 < len(parts) and bare(parts[place + 1]) in {"that", "then", "this"}:
        return place + 2
    if head in {"these", "most", "some"} and place + 1 < len(parts) and is_time_word(bare(parts[place + 1])):
        return place + 2
    if head not in _TIME_OPENERS and not is_time_word(head):
        return place
    limit = min(len(parts), place + 10)
    seen = False
    for at in range(place, limit):
        word = bare(parts[at])
        if at > place and (word in FIRST or word in SUBJECTS or word in POSSESSIVES):
            return at if seen else place
        seen = seen or is_time_word(word) or (is_number(word) and head in _TIME_OPENERS)
        if parts[at].endswith(","):
            return at + 1 if seen else place
    return place


_SIGNED = Pattern(r"(?:^|\s)(?:[A-Z]{1,2}|\w*\d)-$")


def trimmed(text: str, marks: str = " ,.:;!") -> str:
    """A text without these marks and dashes around it; a sign that belongs to its last word stays ("AB-")."""
    bare = text.strip(f"{marks}-")
    return f"{bare}-" if _SIGNED.search(text.rstrip(marks)) else bare


# First person to third: "I'm selling my van" to "User is selling their van".

# The statement under a question: "are you still using X" is "you are still using X".


def uninvert(parts: list[str], *, open_end: bool = False) -> tuple[str, int]:
    """The statement of an inverted question ("am I still using X" to "I am still using X"), and its verb's place.

    With `open_end` the question asks for what the subject is, so nothing but the subject need stand behind "is".
    """
    aux = bare(parts[0])
    end = _subject_end(parts, aux, open_end=open_end)
    if end <= 1 or end > len(parts):
        return "", -1
    subject, rest = parts[1:end], parts[end:]
    if aux in {"do", "does", "did"}:
        moved = 0
        while moved < len(rest) - 1 and bare(rest[moved]) in lexicon.words("adverbs.txt") | {"last", "first"}:
            moved += 1
        if moved >= len(rest):
            return "", -1
        rest = [*rest[:moved], _inflect(rest[moved], aux, subject), *rest[moved + 1 :]]
        return " ".join([*subject, *rest]), len(subject) + moved
    return " ".join([*subject, parts[0].lower(), *rest]), len(subject)


def _inflect(verb: str, aux: str, subject: list[str]) -> str:
    low = bare(verb)
    if aux == "did":
        return past(low) if low in bases() else verb
    return third(low) if aux == "does" and low in bases() else verb


def _subject_end(parts: list[str], aux: str, *, open_end: bool) -> int:
    """Where the subject of an inverted question ends."""
    if len(parts) < 2:
        return -1
    if bare(parts[1]) in SUBJECTS | {"this", "that", "there", "these", "those"}:
        return 2
    best = -1
    for place in range(2, min(len(parts), 9)):
        word = bare(parts[place])
        if aux in {"do", "does", "did", "will", "would", "can", "could", "should", "has", "have", "had"}:
            if word in bases() or word in pasts():
                if word not in lexicon.words("nounish.txt"):
                    return place
                best = place if best < 0 else best
        elif (
            (word in ings() and word not in word_set("cleaning.noun_ing"))
            or (word in pasts() and place > 1)
            or word in lexicon.words("adverbs.txt")
            or word in lexicon.words("prepositions.txt") - {"of", "for"}
            or word in {"a", "an", "the", "my", "not", "oil", "due", "ready", "open"}
            or word in lexicon.words("states.txt")
        ):
            return place
    if best > 0:
        return best
    if aux in {"is", "are", "was", "were"}:
        if open_end and bare(parts[-1]) not in lexicon.words("moods.txt"):
            return len(parts)  # "when is the upgrade review": the last word is the noun, and tells nothing of it
        return len(parts) - 1 if len(parts) > 2 else 2
    return -1


def after_verb(words: list[str], verb: int) -> int:
    """Where an object goes: behind the last verb of the statement's chain ("plan to invite", "have been using")."""
    place = verb
    chain = AUXILIARIES | word_set("transforms.verb_chain")
    while place + 1 < len(words) and (
        (bare(words[place]) in chain and not _possesses(words, place))
        or bare(words[place + 1]) in {"to"}
        or bare(words[place]) in lexicon.words("adverbs.txt")
    ):
        place += 1
    light = bare(words[place]) in {"work", "live", "go", "study", "look", "come", "works", "lives"}
    if light and place + 1 < len(words) and bare(words[place + 1]) in lexicon.words("prepositions.txt"):
        return place + 2
    return place + 1


def _possesses(words: list[str], place: int) -> bool:
    """Whether "have" is the verb itself ("I have for breakfast") and no auxiliary ("I have been")."""
    after = bare(words[place + 1])
    return bare(words[place]) in {"have", "has", "had"} and after not in pasts() and after not in {"to", "got"}


_TOKEN = Pattern(r"((?<![\w@#])(?<!\w\.)[A-Za-zÀ-ɏ']+(?:-[A-Za-zÀ-ɏ']+)*(?![\d@]|\.\w))")
"""A word; letters inside a code ("m6i.large", "3x12") are none."""
_MINE = {"my": "'s", "mine": "'s", "our": "'s", "ours": "'s"}
_OBJECTS = {"me": "", "us": ""}
_SELF = {"myself": "themselves", "ourselves": "themselves"}
_LISTENER = {"you": "the assistant", "your": "the assistant's", "yours": "the assistant's", "yourself": "itself"}


def to_third(clause: str, who: str = "User") -> str:
    """The clause with the speaker called `who`; quotations and names stay as they are."""
    pieces = _TOKEN.split(clause)
    first_word = next((piece.lower() for piece in pieces[1::2]), "")
    state = _Agreement(who, first_word in FIRST)
    for place in range(1, len(pieces), 2):
        pieces[place] = state.turn(pieces, place)
    return "".join(pieces)


class _Agreement:
    """Walks over the words of one clause and keeps what the next verb must agree with."""

    def __init__(self, who: str, opens_first: bool) -> None:
        self.who = who
        self.opens_first = opens_first
        self.named = False
        self.awaiting = False
        self.converted = False
        self.infinitive = False

    def turn(self, pieces: list[str], place: int) -> str:
        word = pieces[place]
        low = word.lower()
        before = pieces[place - 2].lower() if place >= 3 else ""
        if low in FIRST and (low != "i" or word == "I" or before not in {"part", "type", "world", "volume"}):
            self.awaiting = before not in {"and", "or"} or place <= 3 or self.named
            self.infinitive = False
            self.named = True
            return self.who
        if low in _MINE:
            return self._owner(low)
        if low in _OBJECTS and word != "US":
            return self.who
        if low in _SELF:
            return _SELF[low]
        if low in _LISTENER:
            return _LISTENER[low]
        return self._verb(word, low, before, pieces, place)

    def _owner(self, low: str) -> str:
        if self.named and self.opens_first and low in {"mine", "ours"}:
            return "theirs"
        if self.named and self.opens_first and low in {"my", "our"}:
            return "their"
        self.named = self.named or False
        return self.who + _MINE[low]

    def _verb(self, word: str, low: str, before: str, pieces: list[str], place: int) -> str:
        if self.awaiting:
            if low in {"no", "longer", "not"} or (low in lexicon.words("adverbs.txt") and low not in {"tend", "hope"}):
                return word
            self.awaiting = False
            turned = agree(word)
            self.converted = low in bases() or low in {"am", "are", "have", "do", "go"}
            self.converted = self.converted and low not in MODALS
            self.infinitive = low in MODALS or low in {"don't", "do"}
            return turned
        if low == "to":
            self.infinitive = True
        elif (
            before in {"and", "or", "but", "then"}
            and self.converted
            and not self.infinitive
            and self._plain(low, pieces, place)
        ):
            return agree(word)
        return word

    @staticmethod
    def _plain(low: str, pieces: list[str], place: int) -> bool:
        if low in {"am", "are", "have", "do", "don't", "haven't"}:
            return True
        after = pieces[place + 2].lower() if place + 2 < len(pieces) else ""
        noun = low in lexicon.words("nounish.txt") and (
            not after or after in AUXILIARIES or after in {"and", "or", "of"}
        )
        return low in bases() and low not in ambiguous_pasts() and not noun
