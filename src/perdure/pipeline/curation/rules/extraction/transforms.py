"""First person to third: "I'm selling my van" to "User is selling their van"."""

from __future__ import annotations

from perdure.domain.text.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.curation.rules.extraction import grammar
from perdure.pipeline.lexicon import word_set

# The statement under a question: "are you still using X" is "you are still using X".


def uninvert(parts: list[str]) -> tuple[str, int]:
    """The statement of an inverted question ("am I still using X" to "I am still using X"), and its verb's place."""
    aux = grammar.bare(parts[0])
    end = _subject_end(parts, aux)
    if end <= 1 or end > len(parts):
        return "", -1
    subject, rest = parts[1:end], parts[end:]
    if aux in {"do", "does", "did"}:
        moved = 0
        while moved < len(rest) - 1 and grammar.bare(rest[moved]) in lexicon.words("adverbs.txt") | {"last", "first"}:
            moved += 1
        if moved >= len(rest):
            return "", -1
        rest = [*rest[:moved], _inflect(rest[moved], aux, subject), *rest[moved + 1 :]]
        return " ".join([*subject, *rest]), len(subject) + moved
    return " ".join([*subject, parts[0].lower(), *rest]), len(subject)


def _inflect(verb: str, aux: str, subject: list[str]) -> str:
    low = grammar.bare(verb)
    if aux == "did":
        return grammar.past(low) if low in grammar.bases() else verb
    return grammar.third(low) if aux == "does" and low in grammar.bases() else verb


def _subject_end(parts: list[str], aux: str) -> int:
    """Where the subject of an inverted question ends."""
    if len(parts) < 2:
        return -1
    if grammar.bare(parts[1]) in grammar.SUBJECTS | {"this", "that", "there", "these", "those"}:
        return 2
    best = -1
    for place in range(2, min(len(parts), 9)):
        word = grammar.bare(parts[place])
        if aux in {"do", "does", "did", "will", "would", "can", "could", "should", "has", "have", "had"}:
            if word in grammar.bases() or word in grammar.pasts():
                if word not in lexicon.words("nounish.txt"):
                    return place
                best = place if best < 0 else best
        elif (
            (word in grammar.ings() and word not in word_set("cleaning.noun_ing"))
            or (word in grammar.pasts() and place > 1)
            or word in lexicon.words("adverbs.txt")
            or word in lexicon.words("prepositions.txt") - {"of", "for"}
            or word in {"a", "an", "the", "my", "not", "oil", "due", "ready", "open"}
            or word in lexicon.words("states.txt")
        ):
            return place
    if best > 0:
        return best
    if aux in {"is", "are", "was", "were"}:
        return len(parts) - 1 if len(parts) > 2 else 2
    return -1


def after_verb(words: list[str], verb: int) -> int:
    """Where an object goes: behind the last verb of the statement's chain ("plan to invite", "have been using")."""
    place = verb
    chain = grammar.AUXILIARIES | word_set("transforms.verb_chain")
    while place + 1 < len(words) and (
        (grammar.bare(words[place]) in chain and not _possesses(words, place))
        or grammar.bare(words[place + 1]) in {"to"}
        or grammar.bare(words[place]) in lexicon.words("adverbs.txt")
    ):
        place += 1
    light = grammar.bare(words[place]) in {"work", "live", "go", "study", "look", "come", "works", "lives"}
    if light and place + 1 < len(words) and grammar.bare(words[place + 1]) in lexicon.words("prepositions.txt"):
        return place + 2
    return place + 1


def _possesses(words: list[str], place: int) -> bool:
    """Whether "have" is the verb itself ("I have for breakfast") and no auxiliary ("I have been")."""
    after = grammar.bare(words[place + 1])
    return (
        grammar.bare(words[place]) in {"have", "has", "had"}
        and after not in grammar.pasts()
        and after not in {"to", "got"}
    )


# A first-person statement said with no: what a denial of the assistant's question states.


def negate(statement: str) -> str:
    """A first-person statement with its verb negated: "I have two dogs" to "I don't have two dogs"; "" if unclear."""
    parts = statement.split()
    verb = grammar.find_verb(parts)
    if verb < 0 and parts and parts[0] in {"I", "we"} and len(parts) > 1:
        verb = 1
        while verb < len(parts) - 1 and grammar.bare(parts[verb]) in lexicon.words("adverbs.txt"):
            verb += 1
    if verb <= 0:
        return ""
    still = [at for at, part in enumerate(parts) if grammar.bare(part) == "still"]
    if still:
        kept = [part for at, part in enumerate(parts) if at not in still]
        place = verb - sum(at < verb for at in still)
        if grammar.bare(kept[place]) in grammar.AUXILIARIES - {"have", "has", "do", "does"}:
            return " ".join([*kept[: place + 1], "no longer", *kept[place + 1 :]])
        return " ".join([*kept[:place], "no longer", *kept[place:]])
    low = grammar.bare(parts[verb])
    if low in {"am", "is", "are", "was", "were", "will", "would", "can", "could", "should"}:
        return " ".join([*parts[: verb + 1], "not", *parts[verb + 1 :]])
    if low in grammar.simple_pasts():
        return " ".join([*parts[:verb], "did not", grammar.pasts()[low], *parts[verb + 1 :]])
    if low in grammar.thirds():
        return " ".join([*parts[:verb], "does not", grammar.thirds()[low], *parts[verb + 1 :]])
    if low in grammar.bases():
        return " ".join([*parts[:verb], "don't", *parts[verb:]])
    return ""


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
    state = _Agreement(who, first_word in grammar.FIRST)
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
        if low in grammar.FIRST and (low != "i" or word == "I" or before not in {"part", "type", "world", "volume"}):
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
            turned = grammar.agree(word)
            self.converted = low in grammar.bases() or low in {"am", "are", "have", "do", "go"}
            self.converted = self.converted and low not in grammar.MODALS
            self.infinitive = low in grammar.MODALS or low in {"don't", "do"}
            return turned
        if low == "to":
            self.infinitive = True
        elif (
            before in {"and", "or", "but", "then"}
            and self.converted
            and not self.infinitive
            and self._plain(low, pieces, place)
        ):
            return grammar.agree(word)
        return word

    @staticmethod
    def _plain(low: str, pieces: list[str], place: int) -> bool:
        if low in {"am", "are", "have", "do", "don't", "haven't"}:
            return True
        after = pieces[place + 2].lower() if place + 2 < len(pieces) else ""
        noun = low in lexicon.words("nounish.txt") and (
            not after or after in grammar.AUXILIARIES or after in {"and", "or", "of"}
        )
        return low in grammar.bases() and low not in grammar.ambiguous_pasts() and not noun
