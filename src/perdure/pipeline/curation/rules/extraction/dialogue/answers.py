"""A short reply to what the assistant asked or claimed, made into the statement that it completes."""

from __future__ import annotations

import re

from perdure.domain.text.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.curation.rules.extraction import coreference, filters, grammar, statements
from perdure.pipeline.curation.rules.extraction.dialogue import corrections
from perdure.pipeline.curation.rules.extraction.dialogue.discourse import Discourse, Draft
from perdure.pipeline.curation.rules.extraction.dialogue.questions import GAP, Frame
from perdure.pipeline.lexicon import word_set

YES = Pattern(
    r"^(?:oh )?(?:yes|yeah|yep|yup|yh|ya|yea|aye|correct|right|exactly|indeed|true|still (?:is|am|do|does|are|the "
    r"same|there|the case|true|so)|(?:i do|i am|i did|i have|it is|she is|he is|they are|we are|we do|i can|i "
    r"will)(?=\s*(?:$|[,.!]| indeed| still))|that is (?:right|correct|the one|it|him|her)|that one|the same|same|"
    r"absolutely|of course|sure|definitely|affirmative|guilty|spot on|always|you got it|unfortunately yes|sadly "
    r"yes)\b(?![-\'])(?: (?:still|it is|i do|i am|is|that one|the same|indeed|she is|he is|please|sir|do|am|they are|"
    r"we do|we are|still is|still the same))*[\s,.!:-]*",
    re.I,
)
NO = Pattern(
    r"^(?:oh |um |actually |sadly |unfortunately |lol |haha )*(?:no|nope|nah|naw|not (?:any ?more|really|at all|"
    r"anymore|yet|quite)|no longer|never|wrong|negative|not me|(?:i don't|i am not|i do not|i'm not|it "
    r"isn't)(?=\s*(?:$|[,.!]|any ?more| not | actually| sadly| though))|that is not right|not exactly|none|(?:they|he|"
    r"she|it|i|we) (?:did not|didn't|does not|doesn't|is not|isn't|don't|haven't|hasn't|won't|am not|are not|aren't|"
    r"wasn't|weren't)(?=\s*(?:$|[,.!])))\b(?: (?:longer|more|not any ?more|actually|i don't|i am not|it is not|sadly|"
    r"lol|thanks|not really|unfortunately|it isn't|any more|anymore|way))*(?! (?:ideas?|clue|matter|worries|problem|"
    r"comment|need|opinion|preference|thoughts)\b)[\s,.!:-]*",
    re.I,
)
LONGEST = 14  # words: a longer reply is read as a statement of its own
_FILLER = Pattern(
    r"^(?:(?:it is|it was|it's|they are|that is|that would be|i think|i guess|i believe|maybe|probably|about|around|"
    r"roughly|just|only|mostly|usually|mainly|currently|still|well|um+|uh+|hm+|let me see|honestly|oh|ah|ok|so|the "
    r"answer is|mine is|make it|let's say|say|like|lol|both|right now|at the moment|now)[, ]+)+",
    re.I,
)
_TAIL = Pattern(
    r"(?:,? (?:i think|i guess|i believe|lol|haha|please|thanks|thx|actually|ish|or so|right now|at the "
    r"moment|these days|so far|though|ofc|obviously|of course)| (?:yes|yep|yeah|will do|is fine|is good|works))+$",
    re.I,
)


def confirm(frame: Frame, talk: Discourse, sources: tuple[int, ...]) -> list[Draft]:
    """The statement that the user said yes to."""
    return state(frame.statement, "confirmed", talk, sources)


def fill(text: str, frames: list[Frame], talk: Discourse, sources: tuple[int, ...]) -> list[Draft]:
    """A fragment put into the first open gap that fits it; [] if there is none."""
    for asked in list(frames):
        frame = _open_any(asked, frames)
        if not (frame.has_gap or frame.noun):
            continue
        value = value_of(text)
        if not value or not _fits(value, frame):
            continue
        statement = _filled(frame, value)
        if statement:
            frames.remove(frame)
            return state(statement, "answer", talk, sources)
    return []


def _open_any(frame: Frame, frames: list[Frame]) -> Frame:
    """ "I take any medication" with a gap in place of "any medication"."""
    whom = re.search(r"\b(?:anything|something|anyone|someone|anybody|somebody|anywhere|somewhere)\b", frame.statement)
    if whom and frame.wants == "yesno" and not frame.has_gap:
        after = re.sub(
            r" (?:regularly|at the moment|right now|these days|currently|in particular)",
            "",
            frame.statement[whom.end() :],
        )
        opened = Frame(frame.statement[: whom.start()] + GAP + after, "", "what")
        frames[frames.index(frame)] = opened
        return opened
    match = re.search(
        r"\b(?:any|some) (?P<noun>[\w' -]{2,40}?)(?: (?:i|that|the assistant|booked|planned)\b.*)?$",
        frame.statement,
        re.I,
    )
    if (
        frame.wants != "yesno"
        or match is None
        or frame.has_gap
        or re.match(r"(?:better|worse|good|more|easier|different|closer|chance|news|luck)\b", match.group("noun"), re.I)
    ):
        return frame
    noun = match.group("noun")
    opened = Frame(frame.statement[: match.start()] + GAP, noun, "what")
    frames[frames.index(frame)] = opened
    return opened


def value_of(text: str) -> str:
    """The reply without the words that only fill it ("about", "I think")."""
    text = _TAIL.sub("", text.strip(" .,!"))
    return _FILLER.sub("", text).strip(" .,!")


def _fits(value: str, frame: Frame) -> bool:
    has_number = re.search(r"\d", value) is not None or corrections.typed(value) is not None
    first = grammar.bare(value.split(maxsplit=1)[0])
    if first == "no" and len(value.split()) > 3:
        return False
    if frame.wants == "how":
        return False
    if (first in grammar.simple_pasts() and first not in lexicon.words("nounish.txt")) or first in word_set(
        "answers.no_value"
    ):
        return False
    if frame.wants == "old" and first in grammar.thirds():
        return False
    if frame.wants in {"many", "much", "old"}:
        return has_number or re.match(r"(?:a|an|no|none|just|half|couple|few|dozen)\b", value, re.I) is not None
    if frame.wants == "when":
        return corrections.typed(value) is not None or any(
            grammar.is_time_word(grammar.bare(part)) for part in value.split()
        )
    if frame.wants in {"long", "often"}:
        return (
            any(grammar.is_time_word(grammar.bare(part)) for part in value.split())
            or has_number
            or value.lower().startswith(("since", "once", "twice", "forever", "all my"))
        )
    return True


def _filled(frame: Frame, value: str) -> str:
    statement = frame.statement
    if not statement:
        joint = ":" if frame.wants in {"many", "any"} else " is"
        return f"my {frame.noun}{joint} {value}" if frame.noun else ""
    low = value.lower()
    first = low.split()[0]
    if frame.wants == "many" and frame.noun and grammar.bare(frame.noun.split()[-1]) in low:
        return statement.replace(f"{GAP} {frame.noun}", value)
    if (
        frame.wants == "where"
        and first not in lexicon.words("prepositions.txt")
        and first not in {"here", "abroad", "home", "nearby"}
    ):
        motion = re.search(
            r"\b(?:go|going|move|moving|travel|travelling|fly|flying|relocating|relocate|head|heading|went|moved)\b",
            statement,
        )
        value = f"{'to' if motion else 'in'} {value}" if not re.search(r"\bfrom\b", statement) else value
    if (
        frame.wants == "when"
        and first not in lexicon.words("prepositions.txt")
        and re.match(r"(?:the )?\d|mon|tue|wed|thu|fri|sat|sun", low)
    ):
        value = f"on {value}" if not re.match(r"\d{1,2}(?::|\s?[ap]m|\.\d)", low) else f"at {value}"
    if (
        frame.wants == "long"
        and first not in {"since", "for", "until", "about", "all", "forever", "from"}
        and "been" in statement
    ):
        value = f"for {value}"
    if frame.wants == "job" and first not in {"a", "an", "the", "as"} and first not in grammar.ings():
        value = f"{'an' if first[:1] in 'aeio' else 'a'} {value}"
    if frame.wants == "old" and re.fullmatch(r"\w+", value):
        value = f"{value} years old"
    return statement.replace(GAP, value)


def state(statement: str, rule: str, talk: Discourse, sources: tuple[int, ...]) -> list[Draft]:
    """The fact of a first-person statement, with its people remembered; [] if it says little."""
    coreference.note_people(statement, talk)
    resolved = coreference.resolve(statement, talk)
    if resolved is None:
        return []
    fact = statements.finish(resolved, talk)
    draft = statements.make(fact, rule, talk, *sources)
    draft.confidence = 0.85
    coreference.note_thing(fact, talk)
    return [draft]


def is_fragment(text: str) -> bool:
    """Whether a reply is too short to stand by itself and has no subject of its own."""
    text = re.sub(r"^((?:\S+ ){1,3}?)(?:will do|is fine|works)$", r"\1", text, flags=re.I).strip()
    text = re.sub(r" (?:called|named) [A-ZÀ-Þ][\w'-]+$", "", text)
    text = re.split(r" (?:when|if|unless) (?:it|i|the|my|they|we)\b", text)[0]
    parts = text.split()
    if not parts or len(parts) > LONGEST or filters.is_chatter(text) or filters.is_question(text, False):
        return False
    if grammar.bare(parts[0]) in {"since", "until", "for", "every", "once", "twice", "about", "around"}:
        return True
    filled = _FILLER.match(text)
    if filled and filled.end() < len(text) and re.match(r"(?:it|they|that|that would) ", text, re.I):
        rest = text[filled.end() :].split()
        return grammar.find_verb(rest) < 0 and rest[0].lower() not in grammar.FIRST
    kind = grammar.subject_of(parts)
    verb = grammar.find_verb(parts)
    plural = len(parts) == 2 and verb == 1 and parts[1].endswith("s")
    return kind == "" or (kind == "noun" and ((len(parts) <= 3 and verb < 0) or plural))
