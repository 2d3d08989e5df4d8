"""A sentence put into the order that the rules expect: asides out, names beside whom they name."""

from __future__ import annotations

import re
from dataclasses import replace

from perdure.domain.text.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.curation.rules.extraction import grammar, people, sentences, statements
from perdure.pipeline.curation.rules.extraction.dialogue.discourse import Discourse, kin_gender

# What stands in brackets behind a name: "Rafi (5)", "Gizmo (cockapoo, 9)".

_BEHIND = Pattern(
    r"\b(?P<name>[A-ZÀ-Þ][\w'-]+?)(?P<own>'s(?: [a-z]+)?)? \((?P<kind>[a-z][a-z -]{2,30}?)??,? ?"
    r"(?P<age>\d{1,2})(?P<unit> ?(?:months?|weeks?|years?|yrs?|yo|y/o|m)(?: old)?)?\)"
)


def note_bracketed(text: str, talk: Discourse, at: int) -> str:
    """The text without such brackets; age and kind are appended to `talk.drafts`, the name is remembered."""
    if "(" not in text:
        return text
    return _BEHIND.sub(lambda match: _told(match, talk, at), text)


def _told(match: re.Match[str], talk: Discourse, at: int) -> str:
    name = match.group("name")
    if not grammar.is_name(name) or people.is_known_word(name.lower()):
        return match.group()
    unit = (match.group("unit") or "").strip()
    age = f"{match.group('age')} {unit}" if unit[:1] in {"m", "w"} else match.group("age")
    talk.call(name, talk.names.get(name.lower(), name))
    talk.meet(talk.names[name.lower()], "n")
    if match.group("kind"):
        kind = match.group("kind")
        article = "an" if kind[:1] in "aeiou" else "a"
        talk.drafts.append(statements.make(f"{name} is {article} {kind}", "aged", talk, at))
    talk.drafts.append(statements.make(f"{name} is {age}", "aged", talk, at))
    return name + (match.group("own") or "")


_A_NAMED = Pattern(r"\b((?:an?|the|my|our) (?:[\w-]+ )?[a-z-]+), ([A-ZÀ-Þ][\w'-]+)(,|$|\.)")
_THE_FAMILY = Pattern(
    r"\b[Tt]he (twins|kids|boys|girls|baby|toddler|wife|husband|missus|in-laws|grandkids|grandchildren|"
    r"other half)\b(?!')"
)
_BEFORE_YOU = Pattern(r",? before you (?:say|ask|suggest|start|tell|mention)\b.*$", re.I)
_ME_AND = Pattern(
    r"^((?:and |so |but |now )?)[Mm]e (?:and|&|n) ((?:my|our) [a-z-]+(?: (?!have\b|are\b|is\b|had\b|"
    r"were\b)[A-Za-z][\w'-]+)?|[A-Z][\w'-]+) (?=(?:have|are|were|had|both|always|still|got|went|play|live|run|work|do|"
    r"share|want|need|bought|like|met|moved|started)\b)"
)
_BARE_KIN = Pattern(r"\b(for|with|to|from|than|like) (dad|mum|mom|gran|nan|grandma|grandpa|grandad)\b(?!'s? my)", re.I)
_DOUBLED = Pattern(
    r"^((?:my|our|his|her|the) [a-z-]+) (?:she|he|it|they) (?=(?:is|are|was|has|have|does|did|can|will|lives|works)\b)",
    re.I,
)
_ASIDE = Pattern(
    r", (?:for my sins|to be honest|by the way|as it happens|as you know|of course|in fact|believe it or "
    r"not|i think|i guess|i suppose|apparently|sadly|unfortunately|luckily|thankfully|if you like|as "
    r"always|as usual|weirdly|oddly enough|bless (?:him|her|them)|so to speak), ",
    re.I,
)
_CLEFT = Pattern(r"\b(?:[Ii]t is|[Ii]t was) ([A-Z][\w'-]+|(?:my|our) \w+(?: [A-Z]\w+)?) (?:who|that) ")
_THINGS = Pattern(
    r"^(?:the )?(?:things|stuff|foods?|people|places|languages|instruments|books|games|shows|meds|"
    r"medications|tools|apps|sports) (?:that |which )?(i|we) ((?:\w+ )?\w+):? (?=\w)",
    re.I,
)
_APPOSITIVE = Pattern(
    r"\b((?:[Mm]y|[Oo]ur|[Hh]is|[Hh]er|[Tt]he)(?: [\w'-]+){1,3}), ([A-ZÀ-Þ][\w'-]+(?: [A-ZÀ-Þ][\w'-]+)?),(?= [a-z])"
)
_NAME_FIRST = Pattern(r"\b([A-Z][\w'-]+), ((?:my|our) [\w' -]{2,30}?), (?=[a-z])")
_IN_BRACKETS = Pattern(r"\b([a-z-]+) \(([A-ZÀ-Þ][\w'-]+(?: [A-ZÀ-Þ][\w'-]+)?)\)(?= )")

_BRACKETS = Pattern(r"\s*\(([^()]{1,300})\)")


def unbracketed(found: list[sentences.Sentence]) -> list[sentences.Sentence]:
    """Long asides in brackets taken out of their sentence and put behind it."""
    out: list[sentences.Sentence] = []
    for sentence in found:
        asides = [aside for aside in _BRACKETS.findall(sentence.text) if "," in aside or len(aside.split()) > 4]
        text = sentence.text
        for aside in asides:
            text = text.replace(f"({aside})", " ")
        out.append(replace(sentence, text=" ".join(text.split())) if asides else sentence)
        out.extend(sentences.Sentence(aside) for aside in asides if grammar.subject_of(aside.split()) == "first")
    return out


_RECORDS = Pattern(
    r"^(?:(?:please|pls|kindly|can you|could you|so|and|also|ok),? )*(?:(?:amend|update|correct|adjust|change|fix|"
    r"edit) (?:your|the|my) (?:records?|notes?|files?|memory|profile|details|info)(?: please)?[:,-]+ ?(?:to say )?|"
    r"(?:note|put|write|add) (?:it )?(?:down )?(?:for|in|on|to) (?:your|the) (?:records?|notes?|files?|"
    r"memory)(?: that|:|,) )",
    re.I,
)
_OWN_LABEL = Pattern(r"^the (?=(?:sur|last |first |middle |maiden |user|nick)?name is\b|spelling is\b)", re.I)
_NAME_BARE = Pattern(r"^((?:[Hh]ello|[Hh]i|[Gg]ood \w+)?,? ?[Mm]y name) (?=[A-ZÀ-Þ][a-zà-ÿ]+(?:,|\.|$| and\b))")


_ONE_OF_THEM = Pattern(
    r"\bone of them,? (?:called |named )?(?P<name>[A-ZÀ-Þ][\w'-]+),? (?=(?:is|has|was|does|can|will|[a-z]+s)\b)"
)
_AGED_PAIR = Pattern(r"\b([A-ZÀ-Þ][\w'-]+) (is|was|turns) (\d{1,2}),? and ([A-ZÀ-Þ][\w'-]+) (\d{1,2})\b")
_MYSELF = Pattern(r"\b(I|we|We) (?:myself|ourselves),? ")
_AGE_FIRST = Pattern(
    r"^([1-9]\d)(?: ?(?:yo|y/o|years old|f|m))?, (?=([a-z][\w-]*)(?:[ ,]+([a-z][\w-]*))?(?:[ ,]+([a-z][\w-]*))?)", re.I
)
_HEADING = Pattern(r"^(?:[a-z]+ ){0,2}(?:update|news|status)(?: so far)?: (?=\w)", re.I)


def _aged(match: re.Match[str]) -> str:
    """ "58, divorced" and "34, nurse": a number before what somebody is tells the age."""
    words = [word.lower() for word in match.groups()[1:] if word]
    known = lexicon.words("states.txt") | lexicon.words("roles.txt") | {"male", "female"}
    return f"I am {match.group(1)}, " if any(word in known for word in words) else match.group()


_BARE_VERB = Pattern(
    r"\b([Mm]y|[Oo]ur) ([a-z-]+)(?: ([A-ZÀ-Þ][\w'-]+))? ([a-z]+)(?= (?:the|a|an|my|in|at|to|me|for|as|on|no|with)\b)"
)


def _agreeing(text: str) -> str:
    """ "my wife pass the test" as "my wife passes the test": one relative, and a verb that fits no other reading."""
    match = _BARE_VERB.search(text)
    if match is None or kin_gender(match.group(2)) not in {"m", "f"} or match.group(2).endswith("s"):
        return text
    verb = match.group(4)
    before = text[: match.start()].rsplit(" ", 1)
    if verb not in grammar.bases() - grammar.ambiguous_pasts() or re.search(
        r"\b(?:does|did|can|will|let|lets|make|makes|help)\b", text
    ):
        return text
    if (
        before[0]
        and len(before) > 1
        and not before[0].endswith((",", "."))
        and " and" not in text[: match.start()][-6:]
    ):
        return text
    return text[: match.start(4)] + grammar.third(verb) + text[match.end(4) :]


_PLEASE_I = Pattern(r"\b(please) (?=(?:I|i|my|we|our) [a-z']+)")
_IT_IS_THAT = Pattern(
    r"(?:\bturns out )?\b[Ii]t is (?P<what>[a-z][\w -]{1,30}?) (?:that )?(?P<who>I|we|he|she|they|my [a-z]+) "
    r"(?P<does>(?:am|is|are) (?:allergic to|into|scared of|afraid of|hooked on|addicted to|intolerant to|good at|on)|"
    r"can't (?:eat|stand|have|tolerate|drink)|reacts? to|plays?|teach(?:es)?|loves?|hates?)(?=$|[,.])"
)
_MANY = r"(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\d{1,3})"
_TEAM_OF = Pattern(rf"\bwe are (?:a )?(?:small )?team of ({_MANY})\b(?! people)", re.I)
_WE_ARE_SO_MANY = Pattern(
    rf"\bwe are (?:now )?({_MANY})(?: (?:people|altogether|in all|in total|of us))*(?=$|[,.;])", re.I
)


def _is_person(noun: str) -> bool:
    return noun in people.relation_nouns() or noun in lexicon.words("roles.txt")


def normal(text: str) -> str:
    """The sentence in plain order: "my boss, Ana, says" is "my boss Ana says"."""
    recorded = _RECORDS.sub("", text)
    text = text if recorded == text else _OWN_LABEL.sub("my ", recorded)
    text = _NAME_BARE.sub(r"\1 is ", text)
    text = _agreeing(text)
    text = _ONE_OF_THEM.sub(r"\g<name> ", text)
    text = _AGED_PAIR.sub(r"\1 \2 \3 and \4 \2 \5", text)
    text = _MYSELF.sub(r"\1 ", text)
    text = _AGE_FIRST.sub(_aged, text)
    text = _HEADING.sub("", text)
    text = _PLEASE_I.sub(r"\1, ", text)
    text = _IT_IS_THAT.sub(r"\g<who> \g<does> \g<what>", text)
    text = _TEAM_OF.sub(r"our team has \1 people", text)
    text = _WE_ARE_SO_MANY.sub(r"our group has \1 people", text)
    text = _THE_FAMILY.sub(r"my \1", text)
    text = _BEFORE_YOU.sub("", text)
    text = _ME_AND.sub(r"\1\2 and I ", text)
    text = _BARE_KIN.sub(r"\1 my \2", text)
    text = _DOUBLED.sub(r"\1 ", text)
    text = _ASIDE.sub(" ", text)
    text = _CLEFT.sub(r"\1 ", text)
    text = _THINGS.sub(r"\1 \2 ", text) if ":" in text[:60] else text
    text = _A_NAMED.sub(
        lambda m: f"{m.group(1)} named {m.group(2)}{m.group(3)}" if _is_person(m.group(1).split()[-1]) else m.group(),
        text,
    )
    text = _APPOSITIVE.sub(r"\1 \2", text)
    text = _NAME_FIRST.sub(r"\2 \1 ", text)
    return _IN_BRACKETS.sub(r"\1 \2", text)
