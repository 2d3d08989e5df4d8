"""A sentence put into the order that the rules expect: asides out, names beside whom they name."""

from __future__ import annotations

import re
from dataclasses import replace

from perdure.pipeline.extraction import grammar, people, sentences

_A_NAMED = re.compile(r"\b(an? (?:[\w-]+ )?[a-z-]+), ([A-ZÀ-Þ][\w'-]+)(,|$|\.)")
_THE_FAMILY = re.compile(
    r"\b[Tt]he (twins|kids|boys|girls|baby|toddler|wife|husband|missus|in-laws|grandkids|grandchildren|"
    r"other half)\b(?!')"
)
_BEFORE_YOU = re.compile(r",? before you (?:say|ask|suggest|start|tell|mention)\b.*$", re.I)
_ME_AND = re.compile(
    r"^((?:and |so |but |now )?)[Mm]e (?:and|&|n) ((?:my|our) [a-z-]+(?: (?!have\b|are\b|is\b|"
    r"had\b|were\b)[A-Za-z][\w'-]+)?|"
    r"[A-Z][\w'-]+) (?=(?:have|are|were|had|both|always|still|got|went|play|live|run|work|do|"
    r"share|want|need|bought|like|"
    r"met|moved|started)\b)"
)
_BARE_KIN = re.compile(
    r"\b(for|with|to|from|than|like) (dad|mum|mom|gran|nan|grandma|grandpa|grandad)\b(?!'s? my)", re.I
)
_DOUBLED = re.compile(
    r"^((?:my|our|his|her|the) [a-z-]+) (?:she|he|it|they) (?=(?:is|are|was|has|have|does|did|can|will|lives|works)\b)",
    re.I,
)
_ASIDE = re.compile(
    r", (?:for my sins|to be honest|by the way|as it happens|as you know|of course|in fact|believe it or "
    r"not|i think|i guess|i suppose|apparently|sadly|unfortunately|luckily|thankfully|if you like|as "
    r"always|as usual|weirdly|oddly enough|bless (?:him|her|them)|so to speak), ",
    re.I,
)
_CLEFT = re.compile(r"\b(?:[Ii]t is|[Ii]t was) ([A-Z][\w'-]+|(?:my|our) \w+(?: [A-Z]\w+)?) (?:who|that) ")
_THINGS = re.compile(
    r"^(?:the )?(?:things|stuff|foods?|people|places|languages|instruments|books|games|shows|meds|"
    r"medications|tools|apps|sports) (?:that |which )?(i|we) ((?:\w+ )?\w+):? (?=\w)",
    re.I,
)
_APPOSITIVE = re.compile(
    r"\b((?:[Mm]y|[Oo]ur|[Hh]is|[Hh]er|[Tt]he)(?: [\w'-]+){1,3}), ([A-ZÀ-Þ][\w'-]+(?: [A-ZÀ-Þ][\w'-]+)?),(?= [a-z])"
)
_NAME_FIRST = re.compile(r"\b([A-Z][\w'-]+), ((?:my|our) [\w' -]{2,30}?), (?=[a-z])")
_IN_BRACKETS = re.compile(r"\b([a-z-]+) \(([A-ZÀ-Þ][\w'-]+(?: [A-ZÀ-Þ][\w'-]+)?)\)(?= )")

_BRACKETS = re.compile(r"\s*\(([^()]{1,300})\)")


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


def normal(text: str) -> str:
    """The sentence in plain order: "my boss, Ana, says" is "my boss Ana says"."""
    text = _THE_FAMILY.sub(r"my \1", text)
    text = _BEFORE_YOU.sub("", text)
    text = _ME_AND.sub(r"\1\2 and I ", text)
    text = _BARE_KIN.sub(r"\1 my \2", text)
    text = _DOUBLED.sub(r"\1 ", text)
    text = _ASIDE.sub(" ", text)
    text = _CLEFT.sub(r"\1 ", text)
    text = _THINGS.sub(r"\1 \2 ", text) if ":" in text[:60] else text
    text = _A_NAMED.sub(
        lambda m: (
            f"{m.group(1)} named {m.group(2)}{m.group(3)}"
            if m.group(1).split()[-1] in people.relation_nouns()
            else m.group()
        ),
        text,
    )
    text = _APPOSITIVE.sub(r"\1 \2", text)
    text = _NAME_FIRST.sub(r"\2 \1 ", text)
    return _IN_BRACKETS.sub(r"\1 \2", text)
