"""First person to third: "I'm selling my van" to "User is selling their van"."""

from __future__ import annotations

from perdure.domain.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.extraction import grammar, verbs

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
            turned = verbs.agree(word)
            self.converted = low in verbs.bases() or low in {"am", "are", "have", "do", "go"}
            self.converted = self.converted and low not in verbs.MODALS
            self.infinitive = low in verbs.MODALS or low in {"don't", "do"}
            return turned
        if low == "to":
            self.infinitive = True
        elif (
            before in {"and", "or", "but", "then"}
            and self.converted
            and not self.infinitive
            and self._plain(low, pieces, place)
        ):
            return verbs.agree(word)
        return word

    @staticmethod
    def _plain(low: str, pieces: list[str], place: int) -> bool:
        if low in {"am", "are", "have", "do", "don't", "haven't"}:
            return True
        after = pieces[place + 2].lower() if place + 2 < len(pieces) else ""
        noun = low in lexicon.words("nounish.txt") and (
            not after or after in verbs.AUXILIARIES or after in {"and", "or", "of"}
        )
        return low in verbs.bases() and low not in verbs.ambiguous_pasts() and not noun
