"""What a request to forget is about: its words without those that say that it was told, or what a pronoun means."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from perdure.domain.text.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.curation.rules.extraction import cleaning, coreference, grammar
from perdure.pipeline.curation.rules.extraction.dialogue.discourse import Discourse, Draft
from perdure.pipeline.curation.rules.slots import read as read_slots
from perdure.pipeline.lexicon import word_set

_STRIPS = 5  # how many openings are taken off ("everything", "that I said", "about")

_THANKS = Pattern(
    r"^(?:[\s,.!-]*\b(?:please+|pl[sz]+|plz+|ta|thx|thanks|thank you|cheers|will (?:you|u)|would you|could you|can "
    r"you|ok|okay|now|right now|right away|straight away|at once|asap|immediately|for me|for good|for ever|forever|"
    r"completely|entirely|altogether|again|lol|omg|haha|too|as well|if (?:you|u) (?:can|could|would|will|do not mind|"
    r"don't mind|please|may)|if (?:that is )?(?:possible|ok|okay|alright)|if (?:i|we|you) (?:\w+ )?(?:said|told|"
    r"mentioned|saved|stored|have|kept)(?: you)?(?: (?:it|that|them))?|(?:that )?(?:i|we) (?:told|mentioned|said|gave|"
    r"shared)(?: (?:to )?you)?(?: about| of| before| earlier)?)\b)+[\s,.!-]*",
    re.I,
)


@cache
def _tellings() -> re.Pattern[str]:
    return re.compile(rf"(?:{'|'.join(lexicon.lines('forget_tellings.txt'))})(?:\s+|$)", re.I)


@cache
def _place() -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{line})" for line in lexicon.lines("forget_places.txt")), re.I)


@cache
def reasons() -> re.Pattern[str]:
    """Reasons that only a request to forget has."""
    return re.compile("|".join(f"(?:{line})" for line in lexicon.lines("forget_reasons.txt")), re.I)


_TOLD_TAIL = Pattern(
    r"\b(?:thing|things|stuff|business|story|incident|affair|saga|matter|episode|comment|remark)s?$", re.I
)
_POLITE = Pattern(r"^(?:please|pl[sz])\b", re.I)


def thanks(trail: str) -> bool:
    """Whether what trails a request is, or begins with, words of courtesy."""
    found = _THANKS.match(trail)
    return (
        found is not None and re.search(r"please|pl[sz]|thank|ta\b|thx|cheers|you\b", found.group(), re.I) is not None
    )


def after_thanks(trail: str) -> str:
    """What trails a request without courtesies and without the place where memories are kept."""
    while True:
        shorter = _THANKS.sub("", trail, count=1).strip(" ,;:-")
        place = _place().match(shorter)
        shorter = shorter[place.end() :].strip(" ,;:-") if place else shorter
        if shorter == trail:
            return trail
        trail = shorter


def is_told(what: str) -> bool:
    """Whether the matter says of itself that it was told: "what I said", "the thing about X", "my remark on X"."""
    low = what.lower()
    if re.match(r"(?:about|regarding|concerning|please)\b", low):
        return is_told(low.partition(" ")[2])
    if re.match(r"(?:that|what(?! i\b)|the fact|the whole|the entire)\b", low):
        rest = low.split(" ", 1)[1] if " " in low else ""
        if rest and (is_told(rest) or low.startswith(("the fact", "that i ", "that my ", "that we "))):
            return True
    if _TOLD_TAIL.search(low) and re.match(r"(?:the|that|this|my|our)\b", low) and len(low.split()) > 2:
        return True
    return (
        _tellings().match(low) is not None
        or re.search(r"\bi (?:ever |just |once |have )?(?:said|told|mentioned)\b", low) is not None
    )


@cache
def _data() -> frozenset[str]:
    return frozenset(lexicon.pairs("forget_data.tsv"))


def is_datum(what: str) -> bool:
    """Whether the matter is a private datum of somebody or something: "my weight", "the number of the shed padlock"."""
    low = re.sub(r"\bdate of birth\b", "birthdate", what.lower())
    head = re.split(r" (?:of|for|to|in|on|at) ", low, maxsplit=1)[0]
    parts = [grammar.bare(part) for part in head.split()]
    if len(parts) < 2 or not (parts[0] in _DETERMINERS or any(part.endswith("'s") for part in parts)):
        return False
    apart = parts[-1] in lexicon.words("forget_apart.txt")
    return (parts[-1] in _data() and not apart) or " ".join(parts[-2:]) in _data()


_DETERMINERS = frozenset({"my", "our", "the", "his", "her", "their", "that", "this", "any", "all", "those"})
_POINTERS = Pattern(
    r"^(?:about |all |all of |everything of )?(?:it|that|this|them|those|these|that one|this one|that last (?:bit|one|"
    r"part|thing|message)|the last (?:bit|thing|part|message|one)(?: i (?:said|told you|wrote|sent))?|what i (?:just "
    r")?(?:said|told you|wrote)(?: (?:there|just now|to you|earlier|before|last))?|i (?:ever )?(?:just )?said (?:that|"
    r"it|this|anything)|i (?:ever )?(?:mentioned|told you) (?:it|that|this)|that i (?:said|told you|mentioned) (?:it|"
    r"that)|my last (?:message|remark|comment|line)|anything of (?:that|the) (?:kind|sort)|any of (?:it|that|this)|"
    r"the (?:whole )?thing|i said (?:so|a word)|all (?:of )?(?:it|that|this)|my (?:comment|remark|words?)|(?:that|the|"
    r"this) (?:comment|remark|story|bit|part|secret|message|info|information))$",
    re.I,
)


def is_pointer(what: str) -> bool:
    """Whether the matter only points at what was told ("it", "that last bit", "what I just said")."""
    low = what.lower().strip(" ,.:;-!")
    return _POINTERS.match(low) is not None or low in word_set("forget.empty")


_ALL = r"(?:(?:absolutely|literally|just|really) )?(?:everything|anything|all|every(?: single)? thing|the lot)"
_HELD = (
    r"(?:(?:you|u|the assistant|it)(?:'ve| have|'s| has)? (?:\w+ )?(?:know|knows|known|have|has|got|remember|remembers|"
    r"remembered|store|stored|keep|kept|hold|held|save|saved|learnt|learned|collected|gathered|recorded|noted)"
    r"(?: (?:stored|saved|on file|in (?:your )?memory|down))?)"
)
_OF_ME = r"(?:(?:about|on|of|regarding|concerning) (?:me|myself|us|(?:the )?user)(?: and (?:my|our) \w+)?)"
_KINDS = (
    r"(?:(?:personal |private |own |stored |saved |user )*(?:data|memory|memories|info|information|details|facts|"
    r"records|knowledge))"
)
_EVERYTHING: tuple[Pattern, ...] = tuple(
    Pattern(rf"^(?:about )?{form}$", re.I)
    for form in (
        rf"(?:{_ALL}|whatever|what)(?: (?:that|which|there is))? "
        rf"(?:{_HELD}(?: {_OF_ME})?|{_OF_ME}(?: (?:that )?{_HELD})?)",
        rf"(?:(?:all|any)(?: of)? )?(?:my|the user's|user's|their) {_KINDS}",
        rf"(?:(?:all|any)(?: of)? )?your (?:(?:whole|entire|complete|full|own) )?{_KINDS}(?: {_OF_ME})?",
        rf"(?:all|any)(?: of)?(?: the)? {_KINDS} (?:{_OF_ME}(?: (?:that )?{_HELD})?|(?:that )?{_HELD}(?: {_OF_ME})?)",
    )
)
_ALL_TOLD = Pattern(
    rf"^(?:{_ALL}(?: (?:that )?(?:i|we|user|the user) (?:have |had |has |'ve |ever )*(?:told|shared with|said to|gave|"
    r"given)(?: (?:you|the assistant))?(?: (?:so far|until now|before))?)?)$",
    re.I,
)


def is_everything(what: str) -> bool:
    """Whether the matter is all that a memory holds of the speaker: "everything you know about me", "all my data"."""
    return any(pattern.match(what.strip(" ,.:;-!")) for pattern in _EVERYTHING)


def may_be_everything(what: str) -> bool:
    """Whether the matter is that, or "everything" where nothing beside says of what."""
    return is_everything(what) or _ALL_TOLD.match(what.strip(" ,.:;-!")) is not None


_ASKED = Pattern(r"^[^:]{1,80}? asked to forget\s+(?:about\s+)?", re.I)
_USER_ASKED = Pattern(r"^(?:the )?user (?:has )?asked to forget\s+(?:about\s+)?", re.I)


def is_asked(fact: str) -> bool:
    """Whether a fact that was given as such is a request of the user to forget."""
    return _USER_ASKED.match(fact) is not None


def asked_for(text: str) -> str:
    """What the fact of a request asks to forget."""
    return _ASKED.sub("", text)


_SAID = (
    r"(?:told|tell|given|gave|give|mentioned|mention|said|say|shared|share|written|wrote|put|typed|posted|confided|"
    r"pasted|sent|leaked|revealed|entered|let slip|blurted out)(?: (?:to |with )?you)?(?: (?:about|of|that|anything "
    r"about|something about|some (?:\w+ )?things about))?|(?:spoke|spoken|talked)(?: to you)? (?:about|of)"
)
_MATTER = r"(?P<what>(?:(?:the|my|our|that|his|her|their|I)\b|[A-Z])[^,.;?!]{2,60})"
_MENTIONS: tuple[Pattern, ...] = (
    Pattern(
        r"\b[Yy]ou (?:still |even |also )*(?:know|have|remember|keep|kept|store|stored|save|saved|noted|wrote down) "
        r"(?P<what>(?:my|our|the|that|his|her|their) [^,.;?!]{2,60})"
    ),
    Pattern(rf"\b(?:never|should|shouldn't|ought)\b(?: (?:not|never|have|had|ever))* (?:{_SAID}) {_MATTER}"),
    Pattern(rf"\b(?:{_SAID}) {_MATTER}"),
    Pattern(
        r"\b(?:[Dd]on't|[Dd]o not|[Nn]ever|[Ss]top) (?:bring(?:ing)? up|mention(?:ing)?|talk(?:ing)? about|"
        rf"ask(?:ing)? me about|remind(?:ing)? me (?:of|about)) {_MATTER}"
    ),
    Pattern(
        r"^(?P<what>(?:who|what|how|where|why|the|my|our) [^,.;?!]{2,50}?) (?:is|are|was) (?:nobody|no one|none of|"
        r"private|personal|secret|between)\b",
        re.I,
    ),
)
_ADDRESSED = Pattern(r"\b(?:you|in (?:here|chat|the chat)|here|by (?:accident|mistake)|accidentally|in error)\b", re.I)


def mentioned(text: str) -> str:
    """What a sentence says was told ("I should never have told you the pin"), "" if it says no such thing."""
    for number, pattern in enumerate(_MENTIONS):
        found = pattern.search(text)
        if found is None or (number == _TOLD_YOU and not _ADDRESSED.search(text)):
            continue
        what = re.sub(
            r"\b(?: in (?:here|chat|the chat)| here| earlier| before| once| yesterday| last time| by accident|"
            r" by mistake| accidentally| in error)+$",
            "",
            found["what"],
        )
        return what.strip()
    return ""


_TOLD_YOU = 2  # the pattern of telling that says nothing without whom it was told


def note(sentence: str, talk: Discourse, at: int) -> None:
    """Remember what a sentence says was told, for a request that follows in the same message."""
    said = mentioned(sentence)
    if not said and len(sentence.split()) < 7 and grammar.find_verb(sentence.split()) < 0:
        said = sentence  # "The wifi password - don't hold on to it"
    if said:
        talk.mentioned = (at, said)


def name(what: str, talk: Discourse, at: int, before: str) -> tuple[str, ...] | None:
    """The matters that the words of a request name, in the third person; None where they name nothing told."""
    if is_pointer(what) or not what:
        return _pointed(talk, at, before, "message" in what)
    if len(what) > 200:
        return None
    bare = stripped(what)
    if not bare or is_pointer(bare):
        return _pointed(talk, at, before, False)
    return tuple(_third(_referred(part, before, talk), talk.who) for part in _parts(bare)) or None


def _pointed(talk: Discourse, at: int, before: str, whole: bool) -> tuple[str, ...] | None:
    """What "it" means: what the sentence, or the one before, says was told; else the fact told last."""
    said = mentioned(before) or (talk.mentioned[1] if talk.mentioned[0] == at else "")
    if not said and stands_for_matter(before) and len(before.split()) < 9:
        said = before
    if said:
        return (_third(stripped(said) or said, talk.who),)
    told = [draft for draft in talk.drafts if not draft.forget]
    if not told or (talk.drafts[-1].forget and talk.drafts[-1].sources[-1:] == (at,)):
        return None
    meant = [draft for draft in told if draft.sources[-1:] == told[-1].sources[-1:]] if whole else told[-1:]
    return tuple(f": {draft.text}" for draft in meant)


_NAMES_IT = Pattern(
    r"^(?:what|everything|anything|all|never ?mind|nvm|as for|about|(?:the|that|my|our|this) (?:\w+ )?\w+ (?:about|"
    r"regarding|concerning))\b",
    re.I,
)


def stands_for_matter(before: str) -> bool:
    """Whether the words before "delete that" name what is meant: a noun phrase, or "what I said about ..."."""
    return before != "" and (grammar.find_verb(before.split()) < 0 or _NAMES_IT.match(before) is not None)


def stripped(what: str) -> str:
    """The matter without its words of telling, before and after it."""
    what = what.strip(" ,.:;-!")
    for _ in range(_STRIPS):
        shorter = _tellings().sub("", what, count=1) if _tellings().match(what) else what
        shorter = _THANKS.sub("", shorter, count=1) if _POLITE.match(shorter) else shorter
        shorter = re.sub(r"(?<=\w{4}) (?:thing|stuff|business)$", "", shorter, flags=re.I).strip(" ,.:;-!")
        if shorter == what:
            break
        what = shorter
    return what


def _parts(what: str) -> list[str]:
    """ "my weight and my age": each of what is listed."""
    parts = re.split(r",? (?:and|or|&|plus)(?: also)? (?=(?:my|our|the|his|her|their|what|that)\b)", what)
    clause = grammar.find_verb(what.split()) > 0
    return [what] if clause else [stripped(part) for part in parts if part.strip()]


_HIM = Pattern(r"\b(?P<who>him|her|them|he|she)(?=$| (?:and|about|with|for|to|is|was|has|had|at|in|on)\b)", re.I)
_HIS = Pattern(r"\b(?:his|her)(?= \w)", re.I)


def _referred(matter: str, before: str, talk: Discourse) -> str:
    """The matter with "him" and "her" replaced by whom they mean: a name of the same sentence, else the last person."""
    if not (_HIM.search(matter) or _HIS.search(matter)):
        return matter
    named = [
        part for part in before.split()[0:] if grammar.is_name(part) and not coreference.is_known_word(part.lower())
    ]
    who = named[-1].strip(grammar.PUNCTUATION) if named else talk.person
    if not who:
        return matter
    who = who.removesuffix("'s")
    return _HIS.sub(f"{who}'s", _HIM.sub(who, matter, count=1), count=1)


def _third(what: str, who: str) -> str:
    turned = grammar.to_third(what, who)
    if turned.startswith(who):
        return turned
    return turned[:1].lower() + turned[1:] if turned[:4] in {"The ", "That"} else turned


# ------------------------------------------------------------------ what is told of the same matter

_WORD = Pattern(r"[\w']+")
_ENDINGS = Pattern(r"(?:'s|ings?|ed|ies|es|s|y)$")
_OLD = Pattern(r"\b(?:old|previous|former|earlier|last|wrong|first|original)\b", re.I)


def _telling_words(text: str) -> set[str]:
    """The words of a text that say what it is about, without their endings."""
    light = word_set("forget.light")
    low = [word.lower().removesuffix("'s") for word in _WORD.findall(text)]
    return {_ENDINGS.sub("", word) or word for word in low if word not in light and len(word) > 1}


def shares(text: str, matter: str) -> bool:
    """Whether a text holds any telling word of the matter."""
    return bool(_telling_words(text) & _telling_words(matter))


def names_all(text: str, matter: str) -> bool:
    """Whether a text holds every telling word of the matter."""
    wanted = _telling_words(matter)
    return bool(wanted) and wanted <= _telling_words(text)


_POINTS = Pattern(
    r"^(?:(?:but|because|since|as) )?(?:he|she|they)\b|\b(?:it|them)\b|(?<!before )(?<!after )(?<!until )"
    r"\b(?:that|this|those|these)(?= (?:is|are|was|were|has|have|had|will|can)\b|'s\b|[,.;!?]|$)",
    re.I,
)


def points(text: str) -> bool:
    """Whether words beside a request point at its matter: "it was silly", "I've got that in the app"."""
    return _POINTS.search(text) is not None


_HAVE = Pattern(
    r"\b(?:has|have|'ve) (?:\w+ly |all |just |already |since )?(?!(?:got|had|told|said|mentioned)\b)(?P<verb>\w+)", re.I
)
_RENEWS = Pattern(r"\b(?:now|nowadays|new|since|instead)\b", re.I)


def renews(text: str) -> bool:
    """Whether a text tells how things stand since: "it went up to 1020", "they have put me back on nights"."""
    perfect = any(found["verb"].lower() in grammar.pasts() for found in _HAVE.finditer(text))
    return perfect or _RENEWS.search(text) is not None or read_slots(text).mood.changed


def matters(drafts: Sequence[Draft], who: str) -> list[str]:
    """What the requests among the drafts of a message ask to forget, but for what was so once."""
    asked = [draft.text.removeprefix(f"{who} asked to forget") for draft in drafts if draft.forget]
    return [matter for matter in asked if not _OLD.search(matter) and not may_be_everything(matter)]


def thing(asked: str, who: str) -> str:
    """The one thing that a request is about, "" if it is about something said of it: what "it" means behind it."""
    matter = asked.removeprefix(f"{who} asked to forget ").removeprefix("old ")
    opens = matter.split(" ", 1)[0].lower()
    named = opens in _DETERMINERS or opens == f"{who}'s".lower()
    return matter if named and grammar.find_verb(matter.split()) < 0 else ""


def tells_again(text: str, asked: Sequence[str], *, behind: bool) -> bool:
    """Whether a text of a message tells again what it asks to forget, or why; `behind` the request it may be news."""
    again = any(names_all(text, matter) for matter in asked)
    return _is_reason(text) or (again and not (behind and renews(text)))


def without_matters(drafts: Sequence[Draft], who: str) -> list[Draft]:
    """The drafts of one message without those that tell again what the message asks to forget."""
    asked = matters(drafts, who)
    first = next((place for place, draft in enumerate(drafts) if draft.forget), len(drafts))
    return [
        draft
        for place, draft in enumerate(drafts)
        if draft.forget or not tells_again(draft.text, asked, behind=place > first)
    ]


def _is_reason(fact: str) -> bool:
    """ "User doesn't want it hanging about": only says why, and of what is told elsewhere."""
    return reasons().search(fact) is not None and re.search(r"\b(?:it|that|this|them)\b", fact) is not None


# ------------------------------------------------------------------ what is told of somebody else in the same memory

_PARTY = (
    r"(?:User's [a-z][a-z-]*(?: [A-ZÀ-Þ][\w-]+)?(?!'s)|(?!User\b)[A-ZÀ-Þ][\w-]+(?: [A-ZÀ-Þ][\w-]+)?(?!'s))(?=[ ,]|$)"
)
_OWNED = rf"(?:{_PARTY}|(?:User's [a-z-]+|[A-ZÀ-Þ][\w-]+)(?: [A-ZÀ-Þ][\w-]+)?'s)"
_TOGETHER = Pattern(rf"^(?P<members>{_PARTY}(?:, {_PARTY})*,? and {_PARTY}) (?:(?:both|all|each) )?(?P<rest>[a-z].*)$")
_BESIDE = Pattern(rf"(?:,? (?:and|but|while|whereas)|[,;]) (?={_OWNED} ?)")
_GAP = Pattern(rf"^(?P<who>{_PARTY}) (?P<told>(?:[$€£+]?\d|[A-ZÀ-Þ]).*)$")
_ONE = Pattern(rf"^(?P<who>{_OWNED}) (?P<verb>[a-z]+) ")
_MUTUAL = Pattern(r"\b(?:each other|one another|together|twins?|siblings?|a couple|related|apart)\b", re.I)
_REFERS = Pattern(r"\b(?:it|its|he|him|his|she|her|they|them|their|there|too|either|neither|that|this|same)\b", re.I)


def told_of_others(memory: str, matter: str) -> str:
    """What a memory tells of somebody besides the person of a matter, "" if nothing can be told apart.

    "User's brother and User's sister both live in Cork" without the brother: "User's sister lives in Cork".
    """
    memory = memory.strip(" .")
    shared = _TOGETHER.match(memory)
    if shared and not _MUTUAL.search(shared["rest"]):
        members = re.split(r",? and |, ", shared["members"])
        kept = [member for member in members if not shares(member, matter)]
        if not kept or len(kept) == len(members):
            return ""
        if len(kept) > 1:
            return f"{', '.join(kept[:-1])} and {kept[-1]} {shared['rest']}"
        verb, _, more = shared["rest"].partition(" ")
        return f"{kept[0]} {grammar.agree(verb)} {more}".strip()
    parts = _BESIDE.split(memory)
    is_clause = len(parts) > 1 and grammar.find_verb(parts[0].split()) > 0
    if not is_clause or not all(re.match(_OWNED, part) for part in parts):
        return ""
    first = _ONE.match(parts[0])
    kept = []
    for part in parts:
        who = re.match(_OWNED, part)
        if who is None or shares(who.group(), matter) or _REFERS.search(part):
            continue
        gap = _GAP.match(part)
        if gap and part is not parts[0]:
            kept += [f"{gap['who']} {first['verb']} {gap['told']}"] if first and not first["who"].endswith("'s") else []
        elif grammar.find_verb(part.split()) > 0:
            kept.append(part)
    return ", and ".join(kept) if len(kept) < len(parts) else ""


def is_of_others(note: str, matter: str) -> bool:
    """Whether a note beside what goes is plainly about somebody else: it names them, and nothing of the matter."""
    if cleaning.language_of(note):
        return False
    party = read_slots(grammar.to_third(note)).party
    known = party.kind == "relative" or (party.kind == "named" and not coreference.is_known_word(party.name))
    own = known and not shares(f"{party.relation} {party.name}", matter)
    return own and not shares(note, matter) and not _REFERS.search(note)
