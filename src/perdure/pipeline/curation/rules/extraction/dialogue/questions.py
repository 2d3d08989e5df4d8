"""What the assistant asked, as statements with a gap: "Where do you live?" is "I live {}" in the user's own words."""

from __future__ import annotations

import re
from dataclasses import dataclass

from perdure.domain.text.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.curation.rules.extraction import grammar, sentences
from perdure.pipeline.curation.rules.extraction.grammar import after_verb, uninvert

# The assistant's words before they are read as a question: offers, leads, and "you" as the user would say it.

_OFFER = Pattern(
    r"^(?:(?:so|and|ok|okay|great|sure|now|or|also|well),? )*(?:want(?! to (?:be|become))\b|would you like (?:me|a|an|"
    r"some|to (?:hear|see|try|go|continue|start|know|add|make))\b|do you want (?:me|a|an|some|to (?:hear|see|try|"
    r"continue|start|know))\b|do you need (?:help|anything|any help|more|a hand)|need (?:help|anything|any|a|more|me)|"
    r"shall (?:i|we)|should (?:i|we)|can (?:i|we)(?! ask)|could i(?! ask)|may i(?! ask)|which (?:one )?(?:do|would) "
    r"you (?:want|like|prefer),? the|what is on your mind|what brings|anything else|another|care for|how can i|what "
    r"can i|how (?:may|could) i|ready|interested in|how about|what about|fancy|is there anything|are you ready|does "
    r"that|did that|is that (?:ok|okay|clear|better|helpful|what)|any other|what else can|would that|how does that|"
    r"how is that|how's that|feel free|let me know|would you prefer (?:me|a|an)\b|(?:which|what) (?:tone|style|format|"
    r"length|version|option|angle|level|voice|mood|genre|one)s? (?:do|would|should|shall)\b|would you like (?:bullet|"
    r"examples|more|it|this|them|another|sources|links|details)\b|what would you like (?:me|to)|which one would you "
    r"like|what do you want (?:me|to (?:do|know|ask|write|hear|talk)))",
    re.I,
)
_SWAP = Pattern(
    r"\b(are you|were you|you are|you were|you've|you're|you'd|you'll|your|yours|yourself|you|I|my|me|I'm|I've)\b", re.I
)
_TO_USER = {
    "are you": "am I",
    "were you": "was I",
    "you are": "I am",
    "you're": "I am",
    "you were": "I was",
    "you've": "I have",
    "you'd": "I would",
    "you'll": "I will",
    "your": "my",
    "yours": "mine",
    "yourself": "myself",
}
_ASSUME = Pattern(
    r"^(?:(?:so|and|ok|okay|then|now),? )*(?:(?:should|shall|can|may|do) i (?:assume|take it|suppose|conclude|gather)"
    r"(?: then)?(?: that)?|am i right (?:in thinking|to think|to assume)(?: that)?|is it (?:fair|safe|right) to (?:say|"
    r"assume)(?: that)?),? ",
    re.I,
)


def is_offer(question: str) -> bool:
    """Whether the assistant offers something of its own ("shall I go on"), which asks nothing about the user."""
    return _OFFER.match(question) is not None


def plain(question: str) -> str:
    """The question without "should I assume that" before it."""
    return _ASSUME.sub("", question)


def swap(text: str) -> str:
    """The assistant's words as the user would say them: "you" is "I", "your" is "my"."""
    return _SWAP.sub(_swapped, text)


def _swapped(match: re.Match[str]) -> str:
    word = match.group().lower()
    if word in _TO_USER:
        return _TO_USER[word]
    if word == "you":
        after = match.string[match.end() :].split()
        follower = grammar.bare(after[0]) if after else ""
        return "I" if follower and (grammar.is_form(follower) or follower in lexicon.words("adverbs.txt")) else "me"
    return "the assistant"


GAP = "{}"
_LEAD = Pattern(
    r"^(?:(?:so|and|but|ok|okay|great|nice|sure|got it|thanks|ah|oh|hm+|well|now|just checking|to confirm|remind me|"
    r"tell me|by the way|may i ask|can i ask|out of curiosity|if i remember (?:right|correctly)|last time you (?:said|"
    r"mentioned|told me)(?: that)?|i (?:remember|recall|think|believe|assume|see|take it|gather|understand)(?: that)?|"
    r"you (?:said|mentioned|told me) (?:that )?|am i right that|according to [^,]{3,40}?(?=,? (?:you|i|it|your|my) )|"
    r"the assistant (?:noted|have noted|remembered|saved|heard) (?:that )?|(?:as )?i (?:noted|have noted)(?: that)?|"
    r"judging by [^,]{3,40}?(?=,? (?:you|i|it|your|my) )|do i remember correctly that|is it (?:true|right|correct) "
    r"that|wait|correct me if i am wrong),? ?(?:[-:] )?)+",
    re.I,
)
_WH = Pattern(
    r"^(?P<prep>(?:in|on|at|to|for|from|with|by|of|about|until|since) )?(?P<wh>what|which|who|whom|whose|where|when|"
    r"why|how)(?P<measure> (?:many|much|old|long|often|far|tall|big|heavy|high|large|early|late|fast|soon|strict|hot|"
    r"deep))?\b(?:'s\b| ?)(?P<rest>.*)$",
    re.I,
)
_TAGS = Pattern(
    r", (?:is|are|does|do|was|were|has|have|did|will|ca|wo|would|could|should)n't (?:he|she|it|they|you|i|that|there|"
    r"we)$|,? (?:right|correct|yes|no|is that right|isn't it|aren't you|don't you|still|then|by the way|roughly|"
    r"exactly|again|yet|now|currently|these days|at the moment|usually)$",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Frame:
    """`statement` in the user's first person; with a gap it wants a value, without one a yes or no."""

    statement: str
    noun: str = ""  # what is asked for, where the question names it ("which exam board")
    wants: str = ""  # what, who, where, when, why, many, much, old, long, often, how or yesno

    @property
    def has_gap(self) -> bool:
        """Whether a value is asked for, rather than a yes or no."""
        return GAP in self.statement


def read(assistant: str) -> list[Frame]:
    """The frames of the last questions in an assistant's message (at most three), in order."""
    said = sentences.split_sentences(assistant[-2000:])
    frames: list[Frame] = []
    places = [place for place, sentence in enumerate(said) if sentence.question]
    for place in places[-3:]:
        frames.extend(_frames(said[place].text))
    if not places and said and re.search(r"\b(?:you|your|you're|you've|still)\b|^so\b", said[-1].text, re.I):
        frames.extend(frame for frame in _frames(said[-1].text) if frame.wants == "yesno" and frame.statement)
    return frames


def _frames(question: str) -> list[Frame]:
    question = plain(question)
    led = _LEAD.sub("", question)
    text = _TAGS.sub("", swap(led).strip(" ,"))
    if is_offer(question) or is_offer(led):
        return []
    asks = re.split(
        r",? and (?=(?:for |at |on |in |to |by )?(?:what|which|who|where|when|why|how)\b)|,? and (?=(?:do|does|did|is|"
        r"are|am|was|were|have|has|can|will|would) (?:I|my|we|it|he|she|they|the|this|that|there|these|any)\b)|,? and "
        r"whether |, and (?=(?:I|my|we)\b)|, (?=(?:what|which|who|where|when|why|how)\b)",
        text,
    )
    frames: list[Frame] = []
    for ask in asks:
        frame = _frame(_TAGS.sub("", ask.strip(" ,")), bool(frames))
        if frame:
            frames.append(frame)
    return frames


_LIVING = Pattern(
    r"^what (?:do|did) I do(?: for (?:work|a living|money|a job))?(?: these days| now)?$|^what is my (?:job|occupation|"
    r"profession|line of work|trade)$",
    re.I,
)
_CALL_ME = Pattern(
    r"^(?:what|how) (?:should|shall|can|may|would) .{1,30}?\b(?:call|address) (?:me|I)\b|^what (?:do|"
    r"should) .{2,20} call me",
    re.I,
)


def _frame(text: str, follows: bool) -> Frame | None:
    if _LIVING.match(text):
        return Frame(f"I work as {GAP}", noun="", wants="job")
    if _CALL_ME.match(text):
        return Frame(f"I want to be called {GAP}", wants="what")
    match = _WH.match(text)
    if match:
        return _wh(match)
    parts = text.split()
    if not parts:
        return None
    if grammar.bare(parts[0]) in grammar.AUXILIARIES:
        statement, _ = uninvert(parts)
        return _alternative(statement) if statement else None
    if len(parts) == 1 and grammar.bare(parts[0]) in grammar.ings():
        return None  # one of several suggestions ("Pottery? Birdwatching?")
    if grammar.bare(parts[0]) in {"still", "any", "got", "ever", "done", "been", "using", "living", "working"} | set(
        grammar.ings()
    ):
        return _elliptic(parts)
    if grammar.subject_of(parts):
        return _alternative(text)
    return None if follows else Frame("") if len(parts) <= 6 else None


def _elliptic(parts: list[str]) -> Frame | None:
    words = parts[1:] if grammar.bare(parts[0]) == "ever" else parts
    first = grammar.bare(words[0]) if words else ""
    if first == "any":
        return Frame(f"I have {' '.join(words)}", wants="yesno")
    return Frame(f"I am {' '.join(words)}", wants="yesno")


def _alternative(statement: str) -> Frame:
    match = re.match(
        r"(.*\b(?:am|is|are|was|prefer|prefers|like|likes|use|uses|want|have|has|on|drink|eat|would|"
        r"take)\b) (.*) or (.*)$",
        statement,
    )
    if match:
        return Frame(f"{match.group(1)} {GAP}", wants="what")
    return Frame(statement, wants="yesno")


def _wh(match: re.Match[str]) -> Frame | None:
    wh, measure = match.group("wh").lower(), (match.group("measure") or "").strip().lower()
    prep, rest = (match.group("prep") or "").strip().lower(), match.group("rest").strip()
    parts = rest.split()
    noun: list[str] = []
    while (
        parts
        and grammar.bare(parts[0]) not in grammar.AUXILIARIES
        and not (grammar.bare(parts[0]) in grammar.thirds() and not noun)
    ):
        noun.append(parts.pop(0))
        if len(noun) > 5:
            return None
    thing = " ".join(noun)
    if not parts:
        return _bare_ask(wh, measure, prep, thing)
    if grammar.bare(parts[0]) not in grammar.AUXILIARIES:
        return Frame(f"{GAP} {' '.join(parts)}", wants="who") if wh in {"who", "what"} else None
    return _gapped(wh, measure, prep, thing, parts)


def _bare_ask(wh: str, measure: str, prep: str, thing: str) -> Frame | None:
    if wh in {"what", "which", "how"} and thing and measure in ("", "many", "much"):
        return Frame("", noun=thing, wants="many" if measure else "what")
    return Frame("", wants=measure or wh)


def _gapped(wh: str, measure: str, prep: str, thing: str, parts: list[str]) -> Frame | None:
    aux = grammar.bare(parts[0])
    be = aux in {"is", "are", "was", "were", "am"}
    if wh == "how" and be and not measure:
        return Frame("")
    if be and (wh in {"what", "which", "who"} or measure) and measure not in {"many", "much", "often"}:
        return _identity(measure, thing, parts, aux)
    statement, verb = uninvert(parts, open_end=wh in {"when", "where", "why"})
    if not statement:
        return None
    words = statement.split()
    if measure in {"many", "much"}:
        slot = f"{GAP} {thing}".strip()
        place = after_verb(words, verb)
        return Frame(" ".join([*words[:place], slot, *words[place:]]), noun=thing, wants=measure)
    if wh in {"what", "which", "who", "whom", "whose"}:
        place = after_verb(words, verb)
        gap = f"{prep} {GAP}".strip() if place == len(words) else GAP
        named = (
            f"{gap} as {_article_free(thing)}"
            if thing and thing.rsplit(maxsplit=1)[-1].lower() not in {"kind", "type", "sort"}
            else gap
        )
        return Frame(" ".join([*words[:place], named, *words[place:]]), noun=thing, wants="what")
    return Frame(f"{statement} {GAP}", wants=measure or wh)


def _article_free(thing: str) -> str:
    return re.sub(r"^(?:kind|type|sort|brand|make|model) of ", "", thing, flags=re.I)


def _identity(measure: str, thing: str, parts: list[str], aux: str) -> Frame | None:
    rest = parts[1:]
    if rest and grammar.bare(rest[-1]) in {"called", "named"}:
        return Frame(f"{' '.join(rest[:-1])} {aux} {rest[-1]} {GAP}", wants="what")
    subject = " ".join(rest)
    if not subject:
        return None
    if len(rest) > 1 and not thing and grammar.bare(rest[-1]) in lexicon.words("prepositions.txt"):
        split = 1 if grammar.bare(rest[0]) in grammar.SUBJECTS else len(rest) - 1
        statement = f"{' '.join(rest[:split])} {aux} {' '.join(rest[split:])} {GAP}"
        return Frame(statement, wants="what")
    if thing and not measure:
        return Frame(f"{subject} {thing} {aux} {GAP}", noun=thing, wants="what")
    return Frame(f"{subject} {aux} {GAP}", wants=measure or "what")
