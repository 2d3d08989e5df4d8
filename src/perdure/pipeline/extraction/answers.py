"""A short reply to what the assistant asked or claimed, made into the statement that it completes."""

from __future__ import annotations

import re

from perdure.pipeline import lexicon
from perdure.pipeline.extraction import corrections, dropping, grammar, negation, people, reference, statements, verbs
from perdure.pipeline.extraction.discourse import Discourse, Draft
from perdure.pipeline.extraction.questions import GAP, Frame
from perdure.pipeline.extraction.wordsets import word_set

YES = re.compile(
    r"^(?:oh )?(?:yes|yeah|yep|yup|yh|ya|yea|aye|correct|right|exactly|indeed|true|still (?:is|am|do|does|"
    r"are|the same|there)|(?:i do|i am|i did|i have|it is|"
    r"she is|he is|they are|we are|we do|i can|i will)(?=\s*(?:$|[,.!]| indeed| still))|that is (?:right|"
    r"correct|the one|it|him|her)|that one|the same|same|absolutely|of course|sure|definitely|"
    r"affirmative|guilty|spot on|always|you got it|unfortunately yes|sadly yes)\b(?: (?:still|it is|i do|i "
    r"am|is|that one|the same|indeed|she is|he is|please|sir|do|am|they are|we do|we are|still is|still "
    r"the same))*[\s,.!:-]*",
    re.I,
)
NO = re.compile(
    r"^(?:oh |um |actually |sadly |unfortunately |lol |haha )*(?:no|nope|nah|naw|not (?:any ?more|really|"
    r"at all|anymore|yet|quite)|no longer|never|wrong|negative|i don't|i am not|i do not|not me|"
    r"not i|i'm not|it isn't|that is not right|not exactly|none|(?:they|he|she|it|i|we) (?:did not|didn't|"
    r"does not|doesn't|is not|isn't|don't|haven't|hasn't|won't|am not|are not|aren't|wasn't|"
    r"weren't)(?=\s*(?:$|[,.!])))\b(?: (?:longer|more|not any ?more|actually|i don't|i am not|it is not|"
    r"sadly|lol|thanks|not really|unfortunately|it isn't|any more|anymore|way))*[\s,.!:-]*",
    re.I,
)
LONGEST = 14
"""Words: a longer reply is read as a statement of its own."""
_FILLER = re.compile(
    r"^(?:(?:it is|it was|it's|they are|that is|that would be|i think|i guess|i believe|maybe|probably|"
    r"about|around|roughly|just|only|mostly|usually|"
    r"mainly|currently|still|well|um+|uh+|hm+|let me see|honestly|oh|ah|ok|so|the answer is|mine is|make "
    r"it|let's say|say|like|lol|both|right now|at the moment|now)[, ]+)+",
    re.I,
)
_TAIL = re.compile(
    r"(?:,? (?:i think|i guess|i believe|lol|haha|please|thanks|thx|actually|ish|or so|right now|at the "
    r"moment|these days|so far|though|ofc|obviously|of course))+$",
    re.I,
)
_DROPPED_OBJECT = word_set("answers.dropped_object")


def confirm(frame: Frame, talk: Discourse, sources: tuple[int, ...]) -> list[Draft]:
    """The statement that the user said yes to."""
    return _state(frame.statement, "confirmed", talk, sources)


def deny(frame: Frame, talk: Discourse, sources: tuple[int, ...]) -> list[Draft]:
    """The statement that the user said no to, with its negation; [] where that says little."""
    negative = negation.negate(frame.statement)
    return _state(negative, "denied", talk, sources) if negative else []


_WHO_DOES = re.compile(
    r"^(?P<name>[A-Z][\w'-]+(?: [A-Z][\w'-]+)?(?: and [A-Z][\w'-]+)?|my [\w -]{2,30}|i) (?:does|is|do|did|"
    r"has|will|can|am|are)$",
    re.I,
)
_TIMES = re.compile(
    r"^(?:once|twice|thrice|\w+ times|a few times|a couple of times|many times|several times|plenty|loads|lots)\b", re.I
)


def names_who(text: str) -> bool:
    """Whether a reply is "Bronagh does"."""
    return _WHO_DOES.match(text.strip(" .,!")) is not None


def fill(text: str, frames: list[Frame], talk: Discourse, sources: tuple[int, ...]) -> list[Draft]:
    """A fragment put into the first open gap that fits it; [] if there is none."""
    for asked in list(frames):
        if asked.wants == "yesno" and _TIMES.match(text) and " have " in f" {asked.statement} ":
            frames.remove(asked)
            return _state(f"{asked.statement} {_value(text)}", "answer", talk, sources)
        frame = _open_any(asked, frames)
        if not (frame.has_gap or frame.noun):
            continue
        does = _WHO_DOES.match(text.strip(" .,!")) if frame.wants == "who" else None
        value = does.group("name") if does else _value(text)
        if not value or not _fits(value, frame):
            continue
        statement = _filled(frame, value)
        if frame.noun in word_set("answers.attributes") and not frame.statement and talk.thing:
            statement = f"{talk.thing}'s {frame.noun} is {value}"
        if statement:
            frames.remove(frame)
            return _state(statement, "answer", talk, sources)
    return []


def _open_any(frame: Frame, frames: list[Frame]) -> Frame:
    """ "I take any medication" with a gap in place of "any medication"."""
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
    opened = Frame(frame.statement[: match.start()] + GAP, noun, "what", frame.label)
    if re.match(r"I have $", frame.statement[: match.start()]) and noun.endswith("s"):
        opened = Frame("", noun, "any", frame.label)
    frames[frames.index(frame)] = opened
    return opened


def _value(text: str) -> str:
    text = _TAIL.sub("", text.strip(" .,!"))
    return _FILLER.sub("", text).strip(" .,!")


def _fits(value: str, frame: Frame) -> bool:
    has_number = re.search(r"\d", value) is not None or corrections.typed(value) is not None
    first = grammar.bare(value.split(maxsplit=1)[0])
    if frame.wants == "verb":
        return first in verbs.bases()
    if frame.wants == "how":
        return first in {
            "by",
            "with",
            "on",
            "in",
            "via",
            "using",
            "through",
            "black",
            "white",
            "strong",
            "weak",
            "medium",
            "rare",
        }
    if (first in verbs.simple_pasts() and first not in lexicon.words("nounish.txt")) or first in {
        "did",
        "was",
        "were",
        "have",
        "been",
    }:
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
    if frame.wants == "old" and re.fullmatch(r"\w+", value):
        value = f"{value} years old"
    return statement.replace(GAP, value)


def _state(statement: str, rule: str, talk: Discourse, sources: tuple[int, ...]) -> list[Draft]:
    people.note_people(statement, talk)
    resolved = _anchored(statement, talk)
    if resolved is None:
        return []
    fact = statements.finish(resolved, talk)
    if len(fact.split()) < 3:
        return []
    draft = statements.make(fact, rule, talk, *sources)
    draft.confidence = 0.85
    reference.note_thing(fact, talk)
    return [draft]


def _anchored(statement: str, talk: Discourse) -> str | None:
    """The statement with "it" and "that" named from what was said before."""
    parts = statement.split()
    if parts and grammar.bare(parts[0]) in {"that", "this", "these", "those"}:
        return " ".join([talk.thing, *parts[1:]]) if talk.thing else None
    resolved = reference.resolve(statement, talk)
    return resolved


_THAT_IS = re.compile(
    r"^(?:that is|it is|no,? it is|no,? that is|that would be|you mean|i think you mean) "
    r"(?P<name>[A-Z][\w'-]+(?: [A-Z][\w'-]+)?),? ?(?:actually|not .*|rather|you mean|now|though)?$"
)


_NOT_BUT = re.compile(
    r"^(?:no,? )?not (?:the )?(?P<old>[\w' -]{2,40}?)[,.;-]+ ?(?:but |it is |its |they are |"
    r"that is )*(?:in |on |at |with |for )?(?P<new>[^,.]{1,40})$",
    re.I,
)
_INSTEAD = re.compile(r"^(?P<new>[^,.]{1,40}?),? (?:and )?not (?P<old>[\w' -]{2,40})$", re.I)


def instead(text: str, frame: Frame, talk: Discourse, sources: tuple[int, ...]) -> list[Draft]:
    """ "tree nuts, not peanuts" to "you have a peanut allergy": the right word in the wrong one's place."""
    match = _INSTEAD.match(text.strip(" .!")) or _NOT_BUT.match(text.strip(" .!"))
    if match is None:
        return []
    old = match.group("old").strip().rstrip("s")
    found = re.search(rf"\b{re.escape(old)}s?\b", frame.statement, re.I)
    if found is None:
        return []
    return _state(
        frame.statement[: found.start()]
        + _without_repeats(_value(match.group("new")), frame.statement[found.end() :])
        + frame.statement[found.end() :],
        "corrected",
        talk,
        sources,
    )


def _without_repeats(new: str, after: str) -> str:
    """ "the ledger suite" without the article and the noun that the statement has around the place."""
    words = re.sub(r"^(?:the|a|an) ", "", new, flags=re.I).split()
    following = after.split()
    if len(words) > 1 and following and grammar.bare(words[-1]) == grammar.bare(following[0]):
        words.pop()
    return " ".join(words)


def other_person(text: str, frame: Frame) -> str:
    """ "that's Kwame actually" to "is Amara the one with the allergy?": the question's statement said of the other."""
    match = _THAT_IS.match(text.strip(" .!"))
    parts = frame.statement.split()
    if match is None or not parts or not grammar.is_name(parts[0]):
        return ""
    place = 2 if len(parts) > 1 and grammar.is_name(parts[1]) else 1
    return re.sub(r"\bstill ", "", " ".join([match.group("name"), *parts[place:]]))


def is_fragment(text: str) -> bool:
    """Whether a reply is too short to stand by itself and has no subject of its own."""
    parts = text.split()
    if not parts or len(parts) > LONGEST or dropping.is_chatter(text) or dropping.is_question(text, False):
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


def _activity(statement: str) -> str:
    """ "I smoke" as an activity: "smoking"."""
    match = re.fullmatch(r"I (?:still |currently |usually )?([a-z]+)(?: (?:at all|much|regularly|now))?", statement)
    base = match.group(1) if match else ""
    return next((form for form, stem in verbs.ings().items() if stem == base), "") if base in verbs.bases() else ""


def with_object(text: str, frame: Frame) -> str:
    """ "sold it in spring" and "quit in september" with what the question was about in place of "it" or nothing."""
    parts = text.split()
    label = frame.label or _activity(frame.statement)
    if not label or not parts:
        return text
    head = grammar.bare(parts[0])
    place = 1 if head not in {"i", "we"} else 2
    verb = grammar.bare(parts[place - 1]) if len(parts) >= place else ""
    if (
        verb in {"gave", "threw", "traded"}
        and place < len(parts)
        and grammar.bare(parts[place]) in {"up", "away", "in", "out"}
    ):
        place += 1
    after = grammar.bare(parts[place]) if place < len(parts) else ""
    if after in {"it", "that", "them", "those"} and verb in verbs.pasts():
        return " ".join([*parts[:place], label, *parts[place + 1 :]])
    bare_end = (
        not after
        or after in lexicon.words("prepositions.txt")
        or grammar.is_time_word(after)
        or after in {"last", "this", "ages", "a", "years", "two", "because"}
    )
    if verb in _DROPPED_OBJECT and bare_end and after not in {"to", "from", "out", "up"}:
        if after == "a" and not (
            (place + 1 < len(parts) and grammar.is_time_word(grammar.bare(parts[place + 1]))) or "ago" in text
        ):
            return text
        return " ".join([*parts[:place], label, *parts[place:]])
    return text


def _same_kinds(value: str, statement: str) -> tuple[int, int] | None:
    """Where the statement has values of the kinds that the new value has, from the first to the last of them."""
    spans = []
    for _, pattern in corrections.TYPES:
        if pattern.search(value) and (old := pattern.search(statement)):
            spans.append(old.span())
    return (min(start for start, _ in spans), max(end for _, end in spans)) if spans else None


def is_role(text: str) -> bool:
    """Whether a reply is one word for a person ("orthodontist")."""
    return text.strip(" .,!").lower() in people.relation_nouns()


def replaced(text: str, frame: Frame, talk: Discourse, sources: tuple[int, ...]) -> list[Draft]:
    """ "no, at Y" to "you work at X, right?": the question's statement with the new value in the old one's place."""
    value = _value(text)
    statement = re.sub(r"\bstill ", "", frame.statement)
    if not value or not statement or len(value.split()) > 9:
        return []
    parts = value.split()
    first = grammar.bare(parts[0])
    if first in lexicon.words("prepositions.txt"):
        old = re.search(rf"\b{re.escape(first)} .+$", statement, re.I)
        if old:
            return _state(statement[: old.start()] + value, "corrected", talk, sources)
    span = _same_kinds(value, statement)
    if span:
        return _state(statement[: span[0]] + value + statement[span[1] :], "corrected", talk, sources)
    role = re.search(r"\bmy (?P<old>[a-z-]+)$", statement)
    if role and is_role(value) and is_role(role.group("old")):
        return _state(statement[: role.start("old")] + value, "corrected", talk, sources)
    lonely = len(parts) == 1 and value.isalpha() and not people.is_known_word(first)
    if lonely and (
        place := re.search(
            r"\b(?:in|at|from|to|with|on|use|using|via|for|called|named|is) (?P<old>[A-Z][\w'-]+)$", statement
        )
    ):
        return _state(statement[: place.start("old")] + value.capitalize(), "corrected", talk, sources)
    if grammar.is_name(parts[0]) or first in {"a", "an", "the", "my", "our"}:
        object_ = re.search(
            r"\b(?:a|an|the|on|in|at|with|use|using|have|is|am|drive|driving|play|called|named|to|from|"
            r"for) (?P<old>[A-Z][\w'-]*(?: [A-Z0-9][\w'-]*)*)",
            statement,
        )
        if object_:
            return _state(
                statement[: object_.start("old")] + value + statement[object_.end("old") :], "corrected", talk, sources
            )
    return []
