"""Standing instructions: imperatives that say how the user wants things from now on ("reply in French from now on")."""

from __future__ import annotations

import re

from perdure.domain.text.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.curation.rules.extraction import cleaning, grammar
from perdure.pipeline.lexicon import word_set

# Wishes said without an order: "they/them please", "no slug pellets please".

_POLITE = r"(?:please|pls|plz|kindly|thanks|thank you)"
_PRONOUNS = Pattern(
    rf"^(?:my pronouns are |i use |use )?(?P<which>(?:she|he|they|xe|ze|it)/(?:her|hers|him|his|them|theirs|they|she|"
    rf"he|xem|zir|it|its)(?:/\w+)?)(?: pronouns)?(?:,? {_POLITE})*$",
    re.I,
)
_NONE_FOR_ME = Pattern(
    r"^(?:so |and )?no (?:more )?(?P<what>(?!idea|clue|thanks|way|need|rush)[\w' -]{3,30}) for (?:me|us)(?: please)?$",
    re.I,
)
_NO_PLEASE = Pattern(
    rf"^(?:(?:and|so|but),? )*no (?:more )?(?P<what>(?!idea|clue|thanks|way|need|rush|worries|"
    rf"the )[\w' -]{{3,30}}?),? {_POLITE}$",
    re.I,
)


def read_style(sentence: str, who: str, *, own: bool) -> str | None:
    """The wish as a fact ("User wants no wine"), or None; `own` if the speaker told of himself."""
    text = cleaning.without_marks(sentence).strip(" ,.!")
    if len(text) > 160:
        return None
    pronouns = _PRONOUNS.match(text)
    if pronouns:
        return f"{who}'s pronouns are {pronouns.group('which').lower()}"
    refused = _NO_PLEASE.match(text) if own else None
    if refused and not _is_manner(refused.group("what")):
        return f"{who} does not want {grammar.to_third(refused.group('what'), who)}"
    without = _NONE_FOR_ME.match(text)
    return f"{who} wants no {grammar.to_third(without.group('what'), who)}" if without else None


_LASTING = Pattern(
    r"\b(?:when(?:ever)? i (?:ask|paste|send|share|write|say|talk|type|post|give|upload|mention)\w*|from now on|from "
    r"here on|going forward|always|never|ever|whenever|every time|each time|in (?:the )?future|by default|for "
    r"(?:recipes|code|all|any|every|emails|essays|directions|trips|bookings|maths|math|python|sql)\b|all (?:your "
    r")?(?:answers|replies|responses|messages)|each (?:reply|answer|response|message)|every (?:reply|answer|response|"
    r"message)|any more|anymore|at all times|no more|unless i (?:ask|say)|with me|when (?:you )?(?:reply|replying|"
    r"answer|answering|writing|talking|i ask|explaining)|for me from|to me in)\b",
    re.I,
)
_OBJECT = Pattern(
    r"\b(?:answers?|repl(?:y|ies)|responses?|messages to me|bullets?|bullet points|metric|imperial|celsius|fahrenheit|"
    r"24-?h(?:our)?|emojis?|exclamation marks?|jargon|small talk|formal|informal|plain (?:english|language|text)|"
    r"simple (?:words|english|language)|easy (?:words|english)|short (?:sentences|paragraphs)|one-?liners|code "
    r"comments|comments|examples first|markdown|tables?|headings|hashtags?|disclaimers?|jokes?|puns?|preambles?|"
    r"spoilers?|explain (?:things|everything|stuff)|pep talks?|lectures?|sugar-?coat|swear\w*|slang|abbreviations|"
    r"british spelling|us spelling|american spelling|uk spelling|spelling|units|walls? of text|sources|citations|"
    r"links|preamble|filler|apolog\w+|compliments?|praise|congratulate|pronouns|they/them|she/her|he/him)\b",
    re.I,
)
_CALL = Pattern(
    r"^(?:(?:in|for) (?:all|any|every|future|the future|our) ?[\w ]{0,30},? |please |pls |kindly |just |"
    r"you can |you may |do |so |and |also |ok |from now on,? |i (?:should|would) be grateful if you would |"
    r"can you |could you |i would (?:prefer|like) (?:it if )?you (?:to |would )?)*(?:call|address|refer "
    r"to) me (?:as )?(?P<what>[^,.;]{1,60})",
    re.I,
)
_HABIT = Pattern(
    r"(?:get|try|find|think|look|turn|run|play|walk|open|read|watch|wait|stop|start|take|go|cut|"
    r"move)\b(?!.*\b(?:me|us)\b)",
    re.I,
)
"""Verbs of what one always does oneself ("always get travel sick"), unless somebody is told to do it."""
_DONT = Pattern(
    r"^(?:(?:and|but|so|also|just|ok|then|please|pls|kindly|can you|could you|would you|will you|you can|in future|"
    r"from now on|going forward|in all correspondence|when(?:ever)? (?:i|you) [^,]{2,60}|for code|with me),? "
    r")*(?P<neg>no need to|you don't need to|you don't have to|don't|do not|never|dont you dare|don't you dare|don't "
    r"ever|stop|no more|avoid|quit|refrain from|no)(?: (?:please|ever))? (?P<what>.+)$",
    re.I,
)
_DO = Pattern(
    r"^(?:and |but |so |also |just |ok |then |from now on,? |always |please |pls |kindly |can you |could you |going "
    r"forward,? |in future,? |in the future,? |by default,? |for (?!me\b|this\b|the\b|a\b|an\b|now\b)(?:my |all |any "
    r")?[\w-]+(?: [\w-]+)?,? |when (?:you )?(?:reply|answer)\w*(?: to me)?,? |whenever i [^,]{2,60}, |for code,? |"
    r"with me,? )*(?P<verb>repl(?:y|ies)|respond|answer|use|give|keep|write|speak|talk|explain|put|send|start|end|"
    r"include|format|show|stick to|make|be|add|default to|treat|skip|tell|refer|type|prefer|ask|spell|convert|quote|"
    r"cite|remind|check|warn|list|round|assume|remember to|only|leave out)\b(?P<what>.*)$",
    re.I,
)
_ANY_ORDER = Pattern(
    r"^(?:(?:please|pls|kindly|and|also|so|ok|always|from now on|in future|going forward|by default|when(?:ever)? i "
    r"[^,]{2,60}|every time i [^,]{2,60}|each time i [^,]{2,60}|if i [^,]{2,60}),? )*(?P<order>\w+ .+)$",
    re.I,
)
_ASSISTANT_ACTS = Pattern(
    r"^(?:suggest|recommend|call|use|give|send|tell|remind|offer|add|put|include|ask|lecture|congratulate|"
    r"apologi[sz]e|explain|mention|start|end|write|reply|answer|say|assume|sugarcoat|sugar-coat|talk|treat|address|"
    r"bother|judge|quote|repeat|translate|correct|make|be|bring up|show|type|schedule|book|share|propose|refer|push|"
    r"try to|nag|patroni[sz]e|emojis?|hashtags?|exclamation|walls? of|using|suggesting|asking|calling|giving|sending|"
    r"telling|saying|adding|apologi[sz]ing|starting|ending|lecturing|small talk|jargon|bullet|markdown|need to remind|"
    r"thank|spoil|reveal|give away|number|hedge|rush|guess|invent|preach|moralise|moralize|numbering|hedging|guessing|"
    r"ask\w*|repeating|adding|explaining|preaching|talking|being|making|translating|correcting|rhyming|padding|"
    r"rambling|reminding|pushing|quoting|linking)\b",
    re.I,
)


_LESS = Pattern(
    r"^(?:(?:and|but|so|ok|also|just|please|pls|plz|kindly|hey|maybe|ugh|you can|i need you to|i want you to|"
    r"i would like you to|let's|lets|try to|(?P<asked>(?:can|could|would|will) (?:you|u|we))),? )*"
    r"(?:(?P<stop>(?:stop|quit|enough|done)(?: it)?(?: already)? (?:with|of)|no more|lay off(?: with)?|"
    r"cut (?:it )?out(?: with)?)|"
    r"(?P<less>(?:go |take it )?(?:easy|easier|light|lighter) (?:on|with)|ease (?:up|off) (?:on|with)|"
    r"(?:cut|dial|scale) (?:down|back)(?: on)?|tone down|less(?: of)?|fewer|not so (?:many|much)))"
    rf" (?:(?:all|the|those|these|your|that|any|of|so many|so much|constant|endless) )*(?P<what>.+?)(?:,? {_POLITE})*$",
    re.I,
)
_ABOUT_ONE_TEXT = Pattern(
    r"\b(?:in|on|at|from|for) (?:it|this|that|there|(?:the|my|a|an)(?: (?!answers|replies)[\w-]+){1,3})$", re.I
)


def read_less(clause: str, who: str, *, marked: bool) -> str | None:
    """A wish for less of a manner of answering ("can you stop with the bullet points"), also asked with a mark."""
    match = _LESS.match(cleaning.without_marks(clause).strip(" .,!?"))
    if match is None or (marked and not match["asked"]):
        return None
    what = match["what"]
    if len(what.split()) > LONGEST_MANNER or not _is_manner(what) or _ABOUT_ONE_TEXT.search(what):
        return None
    turned = grammar.to_third(what, who)
    if match["stop"]:
        return f"{who} does not want {turned}{_where(what)}"
    return f"{who} wants the assistant to go easy on {turned}"


LONGEST_MANNER = 6
"""Words that name a manner of answering and how often: "bullet points all the time"."""


def _is_manner(what: str) -> bool:
    """Whether words open with what answers can have: "bullet points", "long answers"."""
    head = what.lower()
    styles = any(re.match(rf"{re.escape(style)}\b", head) for style in lexicon.lines("directive_styles.txt"))
    return styles or _OBJECT.match(what) is not None or _ANSWERS.match(what) is not None


_ANSWERS = Pattern(
    r"(?:[\w-]+ ){0,2}(?:answers|replies|responses|paragraphs|sentences|explanations|summaries|introductions|intros|"
    r"questions at the end|follow-?up questions)\b",
    re.I,
)


def read_instruction(clause: str, who: str) -> str | None:
    """The instruction as a fact ("User wants the assistant to reply in French from now on"), or None if it is none."""
    plain = cleaning.without_marks(clause)
    if less := read_less(clause, who, marked=False):
        return less
    called = _CALL.match(clause)
    if called and not re.match(r"(?:a |an |crazy|when|if|back|later|tomorrow|at |on )", called.group("what"), re.I):
        return f"{who} wants to be called {_trim(called.group('what'))}"
    if re.match(r"^(?:i|we) ", plain, re.I):
        return None
    refused = _DONT.match(clause)
    if refused:
        return _refusal(refused, who)
    asked = _DO.match(clause)
    if asked and (_LASTING.search(plain) or (_OBJECT.search(plain) and _short_order(asked, plain))):
        return f"{who} wants the assistant to {_order(asked, who)}"
    general = _ANY_ORDER.match(clause)
    if (
        general
        and _LASTING.search(plain)
        and grammar.bare(general.group("order").split()[0])
        in lexicon.words("imperatives.txt") | word_set("standing.orders") - {"order"}
        and not re.match(r"(?:point|hold|order|call|lead)\b", general.group("order"), re.I)
        and not _HABIT.match(general.group("order"))
    ):
        return f"{who} wants the assistant to {grammar.to_third(general.group('order'), who).strip(' .,')}"
    return None


def _refusal(match: re.Match[str], who: str) -> str | None:
    what = match.group("what").strip(" .")
    if re.match(
        r"(?:write|put|say|tell|quote|repeat|mention|use) (?:that|this|it|them|those)\b|(?:ask|say|tell|mention|send)$",
        what,
        re.I,
    ):
        return None  # about what was just said, not about answers to come
    negation = match.group("neg").lower()
    plain = cleaning.without_marks(what)
    if negation in {"no need to", "you don't need to", "you don't have to"}:
        return (
            f"{who} does not need the assistant to {grammar.to_third(what, who)}"
            if _ASSISTANT_ACTS.match(plain)
            else None
        )
    if negation in ("no", "no more", "quit", "avoid", "refrain from"):
        if not _OBJECT.search(plain) or re.search(r"\b(?:in|on|at) (?:it|this|that|there)$", plain, re.I):
            return None
        return f"{who} does not want {grammar.to_third(_PLEASE_END.sub('', what), who)}"
    if not _ASSISTANT_ACTS.match(plain):
        return None
    if (
        negation == "never"
        and not _LASTING.search(plain)
        and re.match(r"(?:try|start|end|make|be|use|book|share)\b", plain, re.I)
    ):
        return None
    if negation == "stop":
        return f"{who} wants the assistant to stop {grammar.to_third(what, who)}"
    ever = "ever " if negation == "never" else ""
    return f"{who} does not want the assistant to {ever}{grammar.to_third(what, who)}"


def _where(what: str) -> str:
    """ " in answers" behind a manner that does not say itself that answers have it."""
    return "" if _TOLD_WHERE.search(what) else " in answers"


_TOLD_WHERE = Pattern(
    r"\b(?:answers|replies|responses|explanations)\b|\b(?:in|at|with|to|for|from|when|unless|if) ", re.I
)
_PLEASE_END = Pattern(rf"(?:,? {_POLITE})+$", re.I)


def _short_order(match: re.Match[str], plain: str) -> bool:
    """ "keep answers short", "use metric", "give me bullet points": about the manner, not about one text."""
    if re.search(
        r"\b(?:this|these|it|them|above|below|draft|essay|paragraph|about|of the|for a|for an)\b", plain, re.I
    ):
        return False
    return len(plain.split()) <= 22 and match.group("verb").lower() not in word_set("instructions.single_orders")


def _order(match: re.Match[str], who: str) -> str:
    order = f"{match.group('verb').lower()}{match.group('what')}"
    lead = match.string[: match.start("verb")].strip(" ,").lower()
    when = re.search(r"\b(?:always|from now on|whenever i [^,]{2,60}|in future|going forward|for code)", lead)
    turned = grammar.to_third(order, who).strip(" .,")
    return (
        f"{when.group()} {turned}"
        if when and when.group() == "always"
        else turned
        if not when
        else f"{turned} ({grammar.to_third(when.group(), who)})"
    )


def _trim(name: str) -> str:
    return re.split(
        r"\s+(?:please|pls|from now on|instead|not|and|because|everyone|but|ok)\b", name.strip(), maxsplit=1, flags=re.I
    )[0].strip(" .!'\"")


def continues(clause: str) -> bool:
    """Whether a clause after an instruction is one more ("and skip the pleasantries")."""
    head = grammar.bare(clause.split(maxsplit=1)[0]) if clause.split() else ""
    return head in lexicon.words("imperatives.txt")


def whole(sentence: str, who: str) -> str | None:
    """An instruction that runs over commas ("write X, not Y, on everything from now on"), or None."""
    plain = cleaning.without_marks(sentence)
    if not re.search(r"\b(?:from now on|going forward|in (?:the )?future|every time|at all times)\b", plain, re.I):
        return None
    if re.search(r"\b(?:i|we|my) (?:am|have|was|live|work|'ve|need|is)\b", plain, re.I):
        return None
    match = _ANY_ORDER.match(sentence)
    if match is None or grammar.bare(match.group("order").split()[0]) not in lexicon.words("imperatives.txt"):
        return None
    return f"{who} wants the assistant to {grammar.to_third(match.group('order'), who).strip(' .,')}"
