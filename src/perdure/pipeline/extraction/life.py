"""An "it" that means nothing but the speaker's life: "it's two coffees a day now", "mondays it's yoga".

Asked before "it" is taken for the thing spoken of; the answer is a statement in the first person, or "".
"""

from __future__ import annotations

import re

from perdure.domain.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.extraction import grammar, verbs
from perdure.pipeline.extraction.discourse import Discourse
from perdure.pipeline.extraction.wordsets import word_set

_GAVE_UP = Pattern(
    r"\b(?:dropped|gave up|given up|quit|used to|stopped|left|sold|ditched|binned|no longer|moved (?:off|away)|"
    r"cancelled|"
    r"canceled|retired|finished|swapped|switched|scrapped|replaced|lost|outgrew|abandoned|went off|got rid of)\b"
)
_FOR_ME = Pattern(r"\bfor (?:me|us)\b", re.I)
_NOW = Pattern(r"\b(?:now|these days|nowadays|at the moment|for now|currently|this year)\b", re.I)
_DOSE = Pattern(
    r"\b(?:\d[\d.,]* ?(?:mg|mcg|ml|g|iu)|(?:\d+|one|two|three|four|half an?|an?) (?:micrograms?|milligrams?|units?|"
    r"tablets?|pills?|capsules?|puffs?|drops?|insulin shots?|injections?|sachets?|patch(?:es)?))\b",
    re.I,
)


def read(parts: list[str], place: int, talk: Discourse) -> str:
    """The statement of a clause whose "it is" stands at `place`, or ""."""
    if place + 2 >= len(parts) or grammar.bare(parts[place + 1]) != "is" or talk.task:
        return ""
    rest = parts[place + 2 :]
    said = " ".join(rest)
    if not _names_something(rest):
        return ""
    lead = " ".join(parts[:place]).strip(" ,")
    if _DOSE.search(said) and (_FOR_ME.search(said) or (_NOW.search(f"{lead} {said}") and not talk.thing)):
        return f"I take {_FOR_ME.sub('', said).strip(' ,')}"
    if _FOR_ME.search(said):
        return f"I have {' '.join(_FOR_ME.sub('', said).split()).strip(' ,')}" if grammar.is_number(rest[0]) else ""
    if lead and _is_day(lead):
        return f"I have {said} {_on(lead)}"
    last = talk.drafts[-1].text if talk.drafts else ""
    instead = last.startswith(talk.who) and _GAVE_UP.search(last) is not None
    if _NOW.search(f"{lead} {said}") and (instead or (not talk.thing and not talk.asks)):
        verb = "use" if grammar.is_name(rest[0]) and instead else "have"
        return f"I now {verb} {_NOW.sub('', said).strip(' ,')}"
    return ""


def _names_something(rest: list[str]) -> bool:
    """Whether the words after "it is" name things or people: no state, no doing, no time."""
    head = grammar.bare(rest[0])
    if head in lexicon.words("moods.txt") | lexicon.words("states.txt") | lexicon.words("adverbs.txt"):
        return False
    if head in lexicon.words("prepositions.txt") | grammar.SUBJECTS | word_set("life.no_thing"):
        return False
    if head in verbs.ings() and head not in word_set("cleaning.noun_ing"):
        return len(rest) == 1
    time = all(grammar.is_time_word(grammar.bare(part)) or grammar.is_number(part) for part in rest)
    acts = any(grammar.bare(part) in verbs.AUXILIARIES for part in rest)
    return head not in verbs.pasts() and not time and not acts


def _is_day(lead: str) -> bool:
    """Whether the words before "it is" name days that come again ("mondays", "every other friday", "weekends")."""
    return (
        re.fullmatch(
            r"(?:(?:on|and|but|every|every other|most) )*(?:(?:mon|tues|wednes|thurs|fri|satur|sun)days?|"
            r"weekends|weekdays|"
            r"mornings|evenings|nights|lunchtimes|summers|winters|tues|thurs|weds|fri|sat|sun)",
            lead,
            re.I,
        )
        is not None
    )


def _on(lead: str) -> str:
    plain = re.sub(r"^(?:and|but) ", "", lead, flags=re.I)
    return plain if re.match(r"(?:on|every|most)\b", plain, re.I) else f"on {plain}"
