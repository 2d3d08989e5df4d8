"""The statement under a question: "are you still using X" is "you are still using X"."""

from __future__ import annotations

from perdure.pipeline import lexicon
from perdure.pipeline.extraction import grammar, verbs
from perdure.pipeline.extraction.wordsets import word_set


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
        return verbs.past(low) if low in verbs.bases() else verb
    return verbs.third(low) if aux == "does" and low in verbs.bases() else verb


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
            if word in verbs.bases() or word in verbs.pasts():
                if word not in lexicon.words("nounish.txt"):
                    return place
                best = place if best < 0 else best
        elif (
            (word in verbs.ings() and word not in word_set("cleaning.noun_ing"))
            or (word in verbs.pasts() and place > 1)
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
    chain = verbs.AUXILIARIES | {
        "to",
        "been",
        "be",
        "going",
        "planning",
        "trying",
        "still",
        "currently",
        "usually",
        "hoping",
        "expecting",
    }
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
        and after not in verbs.pasts()
        and after not in {"to", "got"}
    )
