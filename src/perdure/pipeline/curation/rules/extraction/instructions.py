"""Standing instructions: imperatives that say how the user wants things from now on ("reply in French from now on")."""

from __future__ import annotations

import re
from functools import cache

from perdure.domain.text.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.curation.rules.extraction import cleaning, grammar
from perdure.pipeline.lexicon import word_set

# How answers are to look, said without an order: "bullet points from here on", "metric units, always".
#
# Only a word that makes it last (always, from now on), or a reason told before ("I lose my place, so ... please"),
# sets such words apart from the wish for one text ("bullet points please").

_LAST = (
    r"(?:from (?:now|here|this point|today) on(?:wards?)?|going forward|in (?:the )?future|always|every time|"
    r"each time|by default|at all times|henceforth|whenever you (?:reply|answer))"
)
_POLITE = r"(?:please|pls|plz|kindly|thanks|thank you)"
_STYLE_LASTING = Pattern(
    rf"^(?:(?:and|so|also|ok|{_POLITE}),? )*(?:(?P<lead>{_LAST}),? (?:{_POLITE},? )?)?(?P<what>[^.,:!?]{{3,80}}?)"
    rf"(?:,? (?P<tail>{_LAST}|only))?(?:,? {_POLITE})*$",
    re.I,
)
_REASONED = Pattern(
    rf"^(?:so|hence|therefore|thus) (?:{_POLITE} )?(?P<what>[^.!?]{{3,60}}?)(?P<ask> {_POLITE})?$", re.I
)
_TALKS = Pattern(
    rf"^(?:(?:and|so|also|ok|just|always|{_POLITE}|can you|could you|would you),? )*(?P<verb>write|answer|reply|"
    rf"respond|"
    r"speak|talk|explain|type|text)(?: (?:to me|me|everything|things|it all|back|your answers?|your replies))* "
    r"(?P<manner>(?:in|with|using|without) [^,.;]{3,80}|(?:short|simple|easy|plain|slow)\w* \w+)$",
    re.I,
)
_PRONOUNS = Pattern(
    rf"^(?:my pronouns are |i use |use )?(?P<which>(?:she|he|they|xe|ze|it)/(?:her|hers|him|his|them|theirs|they|she|"
    rf"he|xem|zir|it|its)(?:/\w+)?)(?: pronouns)?(?:,? {_POLITE})*$",
    re.I,
)
_SPELLED = Pattern(
    r"^(?i:it is) (?P<how>pronounced|spelled|spelt) (?P<what>[A-ZÀ-Þ][\w' -]{1,40}(?:, (?:spelled|"
    r"spelt) [A-Z][\w'-]+)?)$"
)
_NONE_FOR_ME = Pattern(
    r"^(?:so |and )?no (?:more )?(?P<what>(?!idea|clue|thanks|way|need|rush)[\w' -]{3,30}) for (?:me|us)(?: please)?$",
    re.I,
)
_SPELL = Pattern(
    rf"^(?:{_POLITE},? )*(?:spell|pronounce) (?!it\b|this\b|that\b|out\b|check)[\w'-]+ (?:with|as|without|like) ", re.I
)
_REACH = Pattern(
    rf"^(?:{_POLITE},? )*(?:only )?(?:contact|email|text|phone|ring|reach|write to) me (?:only )?(?:at|by|on|via|in|"
    rf"after|before) [\w' -]{{3,40}}?(?:,? {_POLITE})*$",
    re.I,
)
_RATHER = Pattern(
    r"^(?:and |but |so )?(?:i|we) would (?:much )?(?:rather|prefer it if|prefer if|appreciate it if|like it if|prefer "
    r"that) you (?P<what>(?:wrote|used|kept|answered|replied|spoke|called|did not|didn't|avoided|stuck|gave|left|"
    r"skipped) .{3,80})$",
    re.I,
)
_AT_MOST = Pattern(
    rf"^(?:{_POLITE},? )*(?P<what>(?:no more than|never more than|at most|max(?:imum)?|only) (?:\d+|one|two|three|"
    rf"four|five|six|ten) [\w' -]{{3,40}}?(?: at a time| per answer| each time))(?:,? {_POLITE})*$",
    re.I,
)
_NO_PLEASE = Pattern(
    rf"^(?:(?:and|so|but),? )*no (?:more )?(?P<what>(?!idea|clue|thanks|way|need|rush|worries|"
    rf"the )[\w' -]{{3,30}}?),? {_POLITE}$",
    re.I,
)
_ONE_TEXT = Pattern(
    r"\b(?:this|these|it|them|above|below|draft|essay|email|letter|poem|story|speech|note|card|about|of the|for (?:a|"
    r"an|my|the)|in (?:the )?(?:style|voice))\b",
    re.I,
)


@cache
def _formats() -> re.Pattern[str]:
    names = sorted(lexicon.words("formats.txt"), key=len, reverse=True)
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b", re.I)


def read_style(sentence: str, who: str, *, own: bool) -> str | None:
    """The wish as a fact ("User wants bullet points from now on"), or None; `own` if the speaker told of himself."""
    text = cleaning.without_marks(sentence).strip(" ,.!")
    if len(text) > 160:
        return None
    pronouns = _PRONOUNS.match(text)
    if pronouns:
        return f"{who}'s pronouns are {pronouns.group('which').lower()}"
    spelled = _SPELLED.match(text)
    if spelled:
        return f"{who}'s name is {spelled.group('how').lower()} {spelled.group('what')}"
    say = re.match(r"^you can (?:just |also )?(?:say|use) (?P<name>[A-ZÀ-Þ][a-zà-ÿ'-]+)$", text)
    if say:
        return f"{who} can be called {say.group('name')}"
    refused = _NO_PLEASE.match(text) if own else None
    if refused:
        return f"{who} does not want {grammar.to_third(refused.group('what'), who)}"
    without = _NONE_FOR_ME.match(text)
    if without:
        return f"{who} wants no {grammar.to_third(without.group('what'), who)}"
    if _SPELL.match(text) or _REACH.match(text):
        order = re.sub(rf"^(?:{_POLITE},? )+|,? {_POLITE}$", "", text, flags=re.I)
        return f"{who} wants the assistant to {grammar.to_third(order[:1].lower() + order[1:], who)}"
    rather = _RATHER.match(text)
    if rather:
        return f"{who} would rather the assistant {grammar.to_third(rather.group('what'), who)}"
    most = _AT_MOST.match(text)
    if most and _formats().search(most.group("what")):
        return f"{who} wants {grammar.to_third(most.group('what'), who)}"
    talks = _TALKS.match(text)
    if talks and _formats().search(talks.group("manner")) and not _ONE_TEXT.search(text):
        order = f"{talks.group('verb').lower()}{text[talks.end('verb') :]}"
        return f"{who} wants the assistant to {grammar.to_third(order, who)}"
    reasoned = _REASONED.match(text) if own else None
    if reasoned and _is_format(reasoned.group("what")):
        return f"{who} wants {grammar.to_third(reasoned.group('what'), who)}"
    lasting = _STYLE_LASTING.match(text)
    if lasting is None or not (lasting.group("lead") or lasting.group("tail")):
        return None
    liking = _ALWAYS.match(text) if own else None
    if liking and _is_liking(liking.group("what")):
        return f"{who} always wants {liking.group('what')}"
    what_only = re.fullmatch(r"(?P<what>[a-z][a-z ]{2,24}?) only", lasting.group("what"))
    if own and what_only and lasting.group("tail") and _is_liking(what_only.group("what"), least=1):
        return f"{who} wants {what_only.group('what')} only ({lasting.group('tail').lower()})"
    if not _is_format(lasting.group("what")):
        return None
    when = (lasting.group("lead") or lasting.group("tail") or "").lower()
    what = grammar.to_third(re.sub(rf",? {_POLITE}$", "", lasting.group("what"), flags=re.I), who)
    return f"{who} wants only {what}" if when == "only" else f"{who} wants {what} ({when})"


_ALWAYS = Pattern(rf"^(?P<what>[a-z][a-z -]{{3,30}}?),? always(?:,? {_POLITE})?$")


def _is_liking(what: str, least: int = 2) -> bool:
    """Whether words before "always" are a plain noun phrase ("window seat", "oat milk")."""
    parts = what.split()
    known = (
        grammar.AUXILIARIES
        | grammar.SUBJECTS
        | lexicon.words("adverbs.txt")
        | lexicon.words("moods.txt")
        | {"same", "not", "as"}
    )
    if not least <= len(parts) < 5 or any(part in known for part in parts):
        return False
    return grammar.find_verb(parts) < 0 and not any(grammar.is_time_word(part) for part in parts)


def _is_format(what: str) -> bool:
    """Whether words name a form of answer and nothing of the speaker's life: no verb, no owner, no time."""
    parts = [grammar.bare(part) for part in what.split()]
    if not 0 < len(parts) < 12 or _formats().search(what) is None or _ONE_TEXT.search(what):
        return False
    if any(part in grammar.SUBJECTS | grammar.POSSESSIVES | grammar.AUXILIARIES for part in parts):
        return False
    return parts[0] not in grammar.bases() - lexicon.words("nounish.txt") and not any(
        part in grammar.thirds()
        and part not in lexicon.words("nounish.txt")
        and part not in lexicon.words("formats.txt")
        for part in parts
    )


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
_NAME_NOT = Pattern(
    r"^(?:it is|i am|you can (?:just )?(?:say|use|call me)|the name is|name is) (?P<name>[A-ZÀ-Þ][\w'-]+),? (?:and "
    r")?not (?P<old>[A-ZÀ-Þ][\w'-]+)(?:,? (?:ok|okay|please|thanks))*$",
    re.I,
)
_HABIT = Pattern(
    r"(?:get|try|find|think|look|turn|run|play|walk|open|read|watch|wait|stop|start|take|go|cut|"
    r"move)\b(?!.*\b(?:me|us)\b)",
    re.I,
)
"""Verbs of what one always does oneself ("always get travel sick"), unless somebody is told to do it."""
_JUST_NAME = Pattern(
    r"^(?:no,? )?(?:it is |i am |you can say )?(?i:just|only|simply|plain) (?P<name>[A-ZÀ-Þ][\w'-]+)"
    r"(?:,? (?:please|pls|is fine|will do|is enough|to everyone|to my friends|to friends|for short|thanks))+$"
)
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
_WANT = Pattern(
    r"^(?:i|we) (?:would |'d )?(?:really |just |always |strongly )*(?:like|want|prefer|need|love) (?:all |your |the "
    r"assistant's |my )*(?:answers|replies|responses|you to)\b(?P<what>.*)$",
    re.I,
)
_NOUN_FIRST = Pattern(
    r"^(?:your |all )?(?P<noun>answers|replies|responses|code answers|explanations|comments)(?: (?:should "
    r"be|must be|in|as|to be|short|under|with|without|always|only)\b)(?P<what>.*)$",
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


def read_instruction(clause: str, who: str) -> str | None:
    """The instruction as a fact ("User wants the assistant to reply in French from now on"), or None if it is none."""
    plain = cleaning.without_marks(clause)
    called = _CALL.match(clause)
    if called and not re.match(r"(?:a |an |crazy|when|if|back|later|tomorrow|at |on )", called.group("what"), re.I):
        return f"{who} wants to be called {_trim(called.group('what'))}"
    short = _JUST_NAME.match(clause)
    if short and short.group("name") not in lexicon.words("not_names.txt"):
        return f"{who} wants to be called {short.group('name')}"
    renamed = _NAME_NOT.match(clause)
    if renamed and grammar.is_name(renamed.group("name")):
        return f"{who} wants to be called {renamed.group('name')}, not {renamed.group('old')}"
    if re.match(r"^(?:i|we) ", plain, re.I):
        wanted = _WANT.match(clause)
        return f"{who} wants {_rest(clause, who)}" if wanted and wanted.group("what").strip() else None
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
    listed = _NOUN_FIRST.match(clause)
    return f"{who} wants {grammar.to_third(clause, who)}" if listed else None


def _refusal(match: re.Match[str], who: str) -> str | None:
    what = match.group("what").strip(" .")
    if re.match(r"(?:write|put|say|tell|quote|repeat|mention|use) (?:that|this|it|them|those)\b", what, re.I):
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
        return f"{who} does not want {grammar.to_third(what, who)}"
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


def _rest(clause: str, who: str) -> str:
    words = re.sub(
        r"^(?:i|we) (?:would |'d )?(?:really |just |always |strongly )*(?:like|want|prefer|need|love) ",
        "",
        clause,
        flags=re.I,
    )
    return grammar.to_third(words, who)


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


def conditional(sentence: str, who: str) -> str | None:
    """The instruction of "if I ask X, remind me of Y" or "going forward, prices in francs", or None."""
    match = _OCCASION.match(_with_comma(sentence))
    if match is None:
        return None
    order = match.group("order")
    ordered = grammar.bare(order.split()[0]) in lexicon.words("imperatives.txt") | word_set("standing.orders")
    if match.group("if") and not ordered:
        return None
    if re.match(r"(?:i|we|my|he|she|they|it|the|our|you)\b", order, re.I):
        return None
    turned = re.sub(r",? (?:please|pls|thanks)$", "", grammar.to_third(order, who).strip(" .,"), flags=re.I)
    occasion = f" {grammar.to_third(match.group('if').lower(), who)}" if match.group("if") else " from now on"
    verb = "wants the assistant to" if ordered else "wants"
    return f"{who} {verb} {turned}{occasion}"


def _with_comma(sentence: str) -> str:
    """ "if I paste an error give me the fix": the comma before the order, where chat style leaves it out."""
    parts = sentence.split()
    if not re.match(r"(?:if|when|whenever) i\b", sentence, re.I):
        return sentence
    for place in range(4, min(len(parts), 12)):
        if parts[place - 1].endswith(","):
            return sentence
        order = grammar.bare(parts[place]) in lexicon.words("imperatives.txt") - lexicon.words("nounish.txt")
        if order and grammar.bare(parts[place - 1]) not in {"to", "and", "or", "i"}:
            return f"{' '.join(parts[:place])}, {' '.join(parts[place:])}"
    return sentence


_OCCASION = Pattern(
    r"^(?:(?P<if>(?:if|when|whenever) i (?:ever )?(?:ask|mention|say|send|paste|write|share|talk|post|upload)\b"
    r"[^,]{0,60})(?=,)|going forward|"
    r"from now on|in future|in the future),? (?:please |then |just )*(?P<order>\S.{3,200})$",
    re.I,
)
