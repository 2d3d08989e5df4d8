"""A first-person statement said with no: what a denial of the assistant's question states."""

from __future__ import annotations

from perdure.pipeline import lexicon
from perdure.pipeline.extraction import grammar, verbs


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
        if grammar.bare(kept[place]) in verbs.AUXILIARIES - {"have", "has", "do", "does"}:
            return " ".join([*kept[: place + 1], "no longer", *kept[place + 1 :]])
        return " ".join([*kept[:place], "no longer", *kept[place:]])
    low = grammar.bare(parts[verb])
    if low in {"am", "is", "are", "was", "were", "will", "would", "can", "could", "should"}:
        return " ".join([*parts[: verb + 1], "not", *parts[verb + 1 :]])
    if low in verbs.simple_pasts():
        return " ".join([*parts[:verb], "did not", verbs.pasts()[low], *parts[verb + 1 :]])
    if low in verbs.thirds():
        return " ".join([*parts[:verb], "does not", verbs.thirds()[low], *parts[verb + 1 :]])
    if low in verbs.bases():
        return " ".join([*parts[:verb], "don't", *parts[verb:]])
    return ""
