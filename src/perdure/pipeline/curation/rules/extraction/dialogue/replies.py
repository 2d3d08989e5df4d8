"""The first sentences of a reply: what answers or corrects the assistant is read here, the rest is handed back."""

from __future__ import annotations

import re
from dataclasses import replace

from perdure.domain.text.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.curation.rules.extraction import coreference, filters, grammar, sentences, statements
from perdure.pipeline.curation.rules.extraction.dialogue import answers, corrections, questions
from perdure.pipeline.curation.rules.extraction.dialogue.discourse import Discourse, Draft
from perdure.pipeline.curation.rules.extraction.dialogue.questions import Frame
from perdure.pipeline.lexicon import word_set

# A new value in the place of the one that the assistant named: "no, at Y" to "you work at X, right?".

_THAT_IS = Pattern(
    r"^(?:that is|it is|no,? it is|no,? that is|that would be|you mean|i think you mean) "
    r"(?P<name>[A-Z][\w'-]+(?: [A-Z][\w'-]+)?),? ?(?:actually|not .*|rather|you mean|now|though)?$"
)
_NOT_BUT = Pattern(
    r"^(?:no,? )?not (?:the )?(?P<old>[\w' -]{2,40}?)[,.;-]+ ?(?:but |it is |its |they are |"
    r"that is )*(?:in |on |at |with |for )?(?P<new>[^,.]{1,40})$",
    re.I,
)
_INSTEAD = Pattern(r"^(?P<new>[^,.]{1,40}?),? (?:and )?not (?P<old>[\w' -]{2,40})$", re.I)


def substitute(text: str, frame: Frame, talk: Discourse, sources: tuple[int, ...]) -> list[Draft]:
    """ "tree nuts, not peanuts" to "you have a peanut allergy": the right word in the wrong one's place."""
    match = _INSTEAD.match(text.strip(" .!")) or _NOT_BUT.match(text.strip(" .!"))
    if match is None:
        return []
    old = match.group("old").strip().rstrip("s")
    found = re.search(rf"\b{re.escape(old)}s?\b", frame.statement, re.I)
    if found is None:
        return []
    return answers.state(
        frame.statement[: found.start()]
        + _without_repeats(answers.value_of(match.group("new")), frame.statement[found.end() :])
        + frame.statement[found.end() :],
        "corrected",
        talk,
        sources,
    )


def _without_repeats(new: str, after: str) -> str:
    """ "the ledger suite" without the article and the noun that the statement has around the place."""
    return _without_tail(re.sub(r"^(?:the|a|an) ", "", new, flags=re.I), after)


def _without_tail(new: str, after: str) -> str:
    words = new.split()
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


def _same_kinds(value: str, statement: str) -> tuple[int, int] | None:
    """Where the statement has values of the kinds that the new value has, from the first to the last of them."""
    spans = []
    for _, pattern in corrections.TYPES:
        if pattern.search(value) and (old := pattern.search(statement)):
            spans.append(old.span())
    return (min(start for start, _ in spans), max(end for _, end in spans)) if spans else None


def is_role(text: str) -> bool:
    """Whether a reply is one word for a person ("orthodontist")."""
    return text.strip(" .,!").lower() in coreference.relation_nouns()


def replaced(text: str, frame: Frame, talk: Discourse, sources: tuple[int, ...]) -> list[Draft]:
    """ "no, at Y" to "you work at X, right?": the question's statement with the new value in the old one's place."""
    value = answers.value_of(text)
    statement = re.sub(r"\bstill ", "", frame.statement)
    if not value or not statement or len(value.split()) > 9:
        return []
    parts = value.split()
    first = grammar.bare(parts[0])
    if first in lexicon.words("prepositions.txt"):
        old = re.search(rf"\b{re.escape(first)} .+$", statement, re.I)
        if old:
            return answers.state(statement[: old.start()] + value, "corrected", talk, sources)
    hour = re.search(r"(?<=\bat )\d{1,2}(?:[:.]\d\d)?(?: ?[ap]m)?(?![\w%])", statement)
    if hour and re.fullmatch(r"\d{1,2}(?:[:.]\d\d)?(?: ?[ap]m)?", value):
        return answers.state(statement[: hour.start()] + value + statement[hour.end() :], "corrected", talk, sources)
    span = _same_kinds(value, statement)
    if span:
        after = statement[span[1] :].split(", ")[0]  # what comes behind a comma was not confirmed
        before = statement[: span[0]]
        new = _without_repeats(value, after) if re.search(r"\b(?:the|an?) $", before) else value
        return answers.state(before + _without_tail(new, after) + after, "corrected", talk, sources)
    role = re.search(r"\bmy (?P<old>[a-z-]+)$", statement)
    if role and is_role(value) and is_role(role.group("old")):
        return answers.state(statement[: role.start("old")] + value, "corrected", talk, sources)
    lonely = len(parts) == 1 and value.isalpha() and not coreference.is_known_word(first)
    if lonely and (
        place := re.search(
            r"\b(?:in|at|from|to|with|on|use|using|via|for|called|named|is) (?P<old>[A-Z][\w'-]+)$", statement
        )
    ):
        return answers.state(statement[: place.start("old")] + value.capitalize(), "corrected", talk, sources)
    if grammar.is_name(parts[0]) or first in {"a", "an", "the", "my", "our"}:
        object_ = re.search(
            r"\b(?:a|an|the|on|in|at|with|use|using|have|is|am|drive|driving|play|called|named|to|from|"
            r"for) (?P<old>[A-Z][\w'-]*(?: [A-Z0-9][\w'-]*)*)",
            statement,
        )
        if object_:
            return answers.state(
                statement[: object_.start("old")] + value + statement[object_.end("old") :], "corrected", talk, sources
            )
    return []


def read(
    sentence: sentences.Sentence, frames: list[questions.Frame], at: int, talk: Discourse, first: bool
) -> str | None:
    """What is left of a reply's sentence when the part that answers a question has been read; None if nothing."""
    text = sentence.text
    asked = next((frame for frame in frames if frame.wants == "yesno"), None)
    if first and asked:
        done, text = _yes_no(text, asked, frames, talk, at)
        if done:
            return text or None
    elif first:
        text = (
            answers.YES.sub("", text, count=1)
            if not re.match(r"(?:always|same|true|right|of course) \w", text, re.I)
            else text
        )
        text = (
            answers.NO.sub("", text, count=1)
            if re.match(
                r"(?:no|nope|nah)(?:,|$| (?:i|we|it|he|she|they|my|our|the|that|use|just|make|do) )", text, re.I
            )
            else text
        )
    if not text.strip():
        return None
    if not frames or talk.task:
        return text
    text = (
        next((changed for frame in frames if (changed := answers.with_object(text, frame)) != text), text)
        if first
        else text
    )
    return _fill_pieces(text, frames, at, talk)


def _yes_no(
    text: str, asked: questions.Frame, frames: list[questions.Frame], talk: Discourse, at: int
) -> tuple[bool, str]:
    sources = (talk.assistant_at, at) if talk.assistant_at >= 0 else (at,)
    yes, no = answers.YES.match(text), answers.NO.match(text)
    since = _NOT_SINCE.match(text)
    negative = grammar.negate(asked.statement) if since else ""
    if since and negative:
        frames.remove(asked)
        talk.drafts.extend(answers.confirm(replace(asked, statement=f"{negative}, {since.group()}"), talk, sources))
        return True, text[since.end() :].strip(" ,")
    if yes:
        frames.remove(asked)
        rest = text[yes.end() :].strip()
        more = _YES_AND.match(rest)
        if more and not talk.task:
            asked = replace(asked, statement=f"{asked.statement} {more.group()}")
            rest = rest[more.end() :].strip(" ,")
        changed = (
            replaced(
                re.sub(r"^(?:but|though|only|except|just)[, ]+(?:make (?:it|that) |it is |now |at |only )*", "", rest),
                asked,
                talk,
                (at,),
            )
            if re.match(r"(?:but|though|only)\b", rest) and len(rest.split()) < 9
            else []
        )
        if changed:
            talk.drafts.extend(changed)
            return True, ""
        if changed := _but_another_value(rest, asked, talk, at):
            talk.drafts.extend(changed)
            return True, rest.split(",", 1)[1] if "," in rest else ""
        if not talk.task:
            talk.drafts.extend(answers.confirm(asked, talk, sources))
        talk.topic = _own_label(asked, talk) or talk.topic
        return True, answers.with_object(rest, asked) if rest else ""
    if no:
        frames.remove(asked)
        rest = text[no.end() :].strip()
        told, rest = _named_in_denial(rest, asked, talk, sources)
        if told:
            talk.drafts.extend(told)
            return True, rest
        wrong = re.match(r"(?:person|one|guy|user|number)\b", rest, re.I)
        pieces = re.split(r",\s+", rest, maxsplit=1)
        changed = (
            []
            if wrong or not pieces[0] or not answers.is_fragment(pieces[0])
            else replaced(pieces[0], asked, talk, (at,))
        )
        if changed:
            talk.drafts.extend(changed)
            return True, pieces[1] if len(pieces) > 1 else ""
        if not wrong and not talk.task and " the assistant" not in asked.statement and not _tells_more(rest):
            talk.drafts.extend(answers.deny(asked, talk, sources))
        return True, "" if wrong else answers.with_object(rest, asked)
    told, left = _of_some(text, asked, talk, sources)
    if told:
        frames.remove(asked)
        talk.drafts.extend(told)
        return True, left
    instead = substitute(text, asked, talk, sources)
    if instead:
        frames.remove(asked)
        talk.drafts.extend(instead)
        return True, ""
    other = other_person(text, asked)
    if other:
        frames.remove(asked)
        talk.drafts.extend(answers.confirm(replace(asked, statement=other), talk, sources))
        return True, ""
    return _another_value(text, asked, frames, talk, at)


def _another_value(
    text: str, asked: questions.Frame, frames: list[questions.Frame], talk: Discourse, at: int
) -> tuple[bool, str]:
    """A bare new value ("Mondays, please, and in print") in the place of the one that the assistant named."""
    first = _UNTIL_NOW.sub("", text)
    if not answers.is_fragment(first):
        first, _, more = text.partition(",")
        first, more = _UNTIL_NOW.sub("", first), more.strip()
    else:
        more = ""
    if not first or not answers.is_fragment(first):
        return False, text
    owns = re.fullmatch(
        r"(?:I|we) (?:already |still )?have (?:a|an|any|got a) (?P<noun>[a-z][\w' -]{2,30})", asked.statement
    )
    value = corrections.typed(first) if owns else None
    if owns and value and value[0] not in {"number", "model"} and not corrections.is_cued(first):
        frames.remove(asked)
        own = replace(asked, statement=f"my {owns.group('noun')} is {first}{', ' + more if more else ''}")
        talk.drafts.extend(answers.confirm(own, talk, (at,)))
        return True, ""
    liked = re.fullmatch(r"(?P<who>I|we) prefer (?!to )[\w' -]{2,40}", asked.statement)
    if liked and len(first.split()) < 5 and not corrections.is_cued(first):
        frames.remove(asked)
        talk.drafts.extend(
            answers.confirm(replace(asked, statement=f"{liked.group('who')} prefer {first}"), talk, (at,))
        )
        return True, more
    changed = replaced(first, asked, talk, (at,))
    head = first.split(maxsplit=1)[0]
    if not changed or not (corrections.typed(first) or grammar.is_name(head) or is_role(first)):
        return False, text
    frames.remove(asked)
    talk.drafts.extend(changed)
    also = re.match(r"(?:please,? )?(?:and )?(?P<how>(?:in|by|as|on|at|via) [\w' -]{2,40})$", more)
    if also:
        changed[-1].text = f"{changed[-1].text}, {also.group('how')}"
    return True, "" if also else re.sub(r"^please\b[ ,]*", "", more)


_UNTIL_NOW = Pattern(
    r"(?:,? (?:please|pls|these days|now|nowadays|from now on|since (?:[a-z]+|last \w+)|as of \w+|lately|instead|"
    r"actually|for now))+$",
    re.I,
)


_NOT_SINCE = Pattern(r"not (?:since|for|in) (?:the |a |an |last |this )?[\w' -]{3,30}?(?=$|[,.])", re.I)
"""Ends a yes-or-no question with a time: "not since 2016"."""
_YES_AND = Pattern(
    r"(?:at|since|until|for|from|every|once|twice) (?:the |a |an |last )?[\w.%' -]{1,24}?(?=$|,|\. )", re.I
)
"""What a "yes" adds to the statement: "yep at 3.9"."""


def _named_in_denial(
    rest: str, asked: questions.Frame, talk: Discourse, sources: tuple[int, ...]
) -> tuple[list[Draft], str]:
    """What follows a "no" where it names the right person ("no, that's Lena") or repeats what there is none of."""
    first, comma, more = rest.partition(",")
    other = other_person(re.split(r"[,.;] ?", rest)[0], asked)
    if other:
        return answers.confirm(replace(asked, statement=other), talk, sources), more.strip()
    words = [grammar.bare(part) for part in first.split()]
    there = {grammar.bare(part) for part in asked.statement.split()}
    if comma and 0 < len(words) < 4 and all(word in there for word in words):
        return answers.deny(asked, talk, sources), more.strip()
    if not comma and 0 < len(words) < 4 and all(word in there for word in words):
        return answers.deny(asked, talk, sources), ""
    return [], rest


_SOME = Pattern(r"^(?P<what>[a-z][\w' &-]{1,40}?)(?: is| are|,)? (?:yes|yep|yeah)\b[ ,]*(?:but )?", re.I)
_ALL = Pattern(
    r"^(?:all|both|each|every|all three|all four|all of|both of)\b.{0,40}? (?P<verb>is|are|was|were) (?P<rest>.+)$",
    re.I,
)


def _of_some(text: str, asked: questions.Frame, talk: Discourse, sources: tuple[int, ...]) -> tuple[list[Draft], str]:
    """ "stats yes, but ethics is an essay" to "are all your modules exam only?": said of that one alone."""
    some, whole = _SOME.match(text), _ALL.match(asked.statement)
    if some is None or whole is None:
        return [], text
    verb = "are" if " and " in some.group("what") else "is"
    one = replace(asked, statement=f"my {some.group('what')} {verb} {whole.group('rest')}")
    return answers.confirm(one, talk, sources), text[some.end() :]


def _but_another_value(rest: str, asked: questions.Frame, talk: Discourse, at: int) -> list[Draft]:
    """ "yes but make it 120, they cut my shifts": the statement with the new value."""
    first = rest.split(",", 1)[0]
    plain = re.sub(r"^(?:but|though|only|except)[, ]+(?:make (?:it|that) |it is |now )*", "", first)
    if plain == first or corrections.typed(plain) is None:
        return []
    return replaced(plain, asked, talk, (at,))


def _tells_more(rest: str) -> bool:
    """Whether something is told after the "no", so that the bare denial is not needed."""
    pieces = sentences.split_clauses(rest)
    return any(not filters.is_chatter(piece.text) and len(piece.text.split()) > 1 for piece in pieces)


def _goes_with(words: str) -> bool:
    """ "in a yellow notebook" behind "on paper": more of the same answer."""
    parts = words.split()
    opens = grammar.bare(parts[0]) in _GOING_WITH
    return opens and 1 < len(parts) < 6 and grammar.find_verb(parts) < 0 and grammar.bare(parts[1]) not in grammar.FIRST


_GOING_WITH = word_set("replies.going_with")
_PLACED = Pattern(r"^[\w' .-]{2,24} (?:at|for|in|on) (?:the |my |our )?[a-z]+$", re.I)


def _list_member(words: str) -> bool:
    """Whether a piece is one more noun of a list ("brass bands, crosswords, moaning")."""
    words = re.sub(r"^(?:a bit of|a little|some) ", "", words, flags=re.I)
    parts = words.split()
    if _PLACED.match(words) and answers.is_fragment(words) and len(parts) < 6:
        return True
    plain = len(parts) <= 2 and all(part.isalpha() for part in parts) and answers.is_fragment(words)
    return plain and grammar.bare(parts[0]) not in lexicon.words("adverbs.txt") | lexicon.words("prepositions.txt") | {
        "no",
        "not",
    }


def _own_label(frame: questions.Frame, talk: Discourse) -> str:
    if not frame.label:
        return ""
    return statements.finish(re.sub(r"^(?:the|a|an) ", "my ", frame.label), talk)


def _fill_pieces(text: str, frames: list[questions.Frame], at: int, talk: Discourse) -> str | None:
    """Fragments between commas go into the questions' gaps, in order; clauses are left to be read as such."""
    left: list[str] = []
    shared: questions.Frame | None = None
    filled = appended = False
    for piece in sentences.split_clauses(text):
        words = filters.strip_openers(piece.text)
        more = _goes_with(words) or (appended and len(words.split()) < 4 and corrections.typed(words))
        if filled and piece.joint == "," and more and talk.drafts[-1].rule == "answer":
            talk.drafts[-1].text = f"{talk.drafts[-1].text}, {words}"
            appended = True
            continue
        if shared and not frames and piece.joint in {",", ", and", "and"} and _list_member(words):
            talk.drafts.extend(answers.fill(words, [shared], talk, (at,)))
            continue
        wanted = {"what", "where"}
        shared = (
            next((frame for frame in frames if frame.has_gap and frame.wants in wanted), None) if not left else None
        )
        if (answers.is_fragment(words) or answers.names_who(words)) and not filters.is_request(words):
            drafts = answers.fill(words, frames, talk, (at,))
            if drafts:
                filled = True
                talk.drafts.extend(drafts)
                continue
        left.append(f"{piece.joint} {piece.text}" if piece.joint and left else piece.text)
    rest = "".join(part if part.startswith((",", ":")) else f" {part}" for part in left).strip(" ,")
    return rest or None


def _hear_role(talk: Discourse) -> None:
    """ "Did the physio help?": who "she" is in the reply."""
    match = re.search(r"\bthe ([a-z-]+)\b", talk.assistant)
    if match and match.group(1) in coreference.relation_nouns():
        talk.meet(f"{talk.who}'s {match.group(1)}", "n")


_ASKED_OF = Pattern(
    r"\b(?:[Dd]id|[Ii]s|[Hh]as|[Dd]oes|[Ww]as|[Ww]ill|[Hh]ow is|[Hh]ow did|[Hh]ow has|"
    r"[Hh]ow about) (?P<name>[A-ZÀ-Þ][a-zà-ÿ]+)(?:'s)?\b[^.?]*\?"
)


def hear(talk: Discourse) -> None:
    """What the assistant's words make known: that they are about the user's things, and which one."""
    asked_of = _ASKED_OF.search(talk.assistant[-400:])
    if asked_of and not talk.person and grammar.is_name(asked_of.group("name")):
        name = asked_of.group("name")
        talk.meet(talk.names.get(name.lower(), name), "n")
    if (
        re.search(
            r"\byour\b|\byou(?:'re| are| have|'ve) |\bI have (?:booked|set|noted|scheduled|put|added|moved|"
            r"saved|got)\b",
            talk.assistant,
            re.I,
        )
        is None
    ):
        _hear_role(talk)
        return
    talk.own = True
    for said in sentences.split_sentences(talk.assistant[-800:]):
        coreference.note_people(questions.swap(said.text), talk)
    match = re.search(
        r"\b(?:your|the) ((?:[\w'-]+ ){0,3}?[\w'-]+) (?:to|is|are|as|at|on|for|still|remains?|stays?|$)|"
        r"\b(?:your) ((?:[\w'-]+ ){0,2}?[\w'-]+)[?.]",
        talk.assistant,
    )
    last = grammar.bare((match.group(1) or match.group(2)).split()[-1]) if match else ""
    if match and not talk.topic and (last not in grammar.bases() or last in lexicon.words("nounish.txt")):
        talk.topic = talk.thing = f"{talk.who}'s {match.group(1) or match.group(2)}"
