"""Rewrite a query that cannot stand alone with the key words of the messages before it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from perdure.backends.llms.base import LLM
from perdure.domain.errors import LLMError
from perdure.domain.message import Message
from perdure.domain.text.pattern import Pattern
from perdure.pipeline.lexicon import words
from perdure.pipeline.prompts import load

# Query rewriting by a language model: self-contained questions and hypothetical answers.
#
# Whether a query needs it, and what happens when a call fails, is for the caller to say.

MAX_TOKENS: Final = 100  # of an answer
TEMPERATURE: Final = 0.1  # of both calls
TIMEOUT: Final = 30.0  # seconds that a call may take; the port has no timeout for a single call, so it is held here
REWRITE_MESSAGES: Final = 5  # how many messages before the query are shown
MAX_MESSAGE_LENGTH: Final = 1000
"""Characters shown of each: a pasted document must not make a look-up dear, and its start says what it is."""
MAX_ANSWER_LENGTH: Final = 500
"""Characters of a usable answer: 100 tokens have 400 to 500, a longer one did not keep to what was asked."""
CHARACTERS_PER_TOKEN: Final = 5  # the same of another number of tokens
_SPOKEN = ("user", "assistant")
# A chat template may put the opening tag into the prompt, and then the answer holds the closing one alone.
_THOUGHTS = Pattern(
    r"\A\s*<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)|\A.*?^\s*</think(?:ing)?>",
    re.DOTALL | re.IGNORECASE | re.MULTILINE,
)
_PARAGRAPHS = Pattern(r"\n\s*\n")
_QUOTES = ('""', "''", "``", "“”", "„“", "‘’", "«»", "「」")


@dataclass(frozen=True, slots=True, kw_only=True)
class Calling:
    """The parameters of the model call; None is the model's own setting."""

    max_tokens: int | None = MAX_TOKENS
    temperature: float | None = TEMPERATURE
    seconds: float | None = None  # what a call may take; None is `TIMEOUT`
    longest: int = MAX_ANSWER_LENGTH  # characters of a usable answer


async def rewrite(llm: LLM, query: str, history: Sequence[Message], calling: Calling | None = None) -> str:
    """Return the query as a question that can be searched for by itself, with one model call.

    The model sees the last five messages of user and assistant as quoted data. Without messages or query text there is
    no call. An empty or too long answer gives the query itself. LLMError if the call fails or takes too long.
    """
    earlier = [
        {"role": message.role, "content": message.content[:MAX_MESSAGE_LENGTH]}
        for message in history
        if message.role in _SPOKEN and message.content.strip()
    ][-REWRITE_MESSAGES:]
    if not earlier:
        return query
    return await _ask(llm, "rewrite_query", query, {"earlier": earlier, "query": query}, calling)


async def hypothetical(llm: LLM, query: str, calling: Calling | None = None) -> str:
    """Return a made-up answer to be embedded in place of the query, with one call: HyDE (Gao et al. 2022).

    Stored facts are statements, and a statement is nearer to them than a question. It is never shown as an answer. No
    call without text; fallback and LLMError are as in `rewrite`.
    """
    return await _ask(llm, "hypothetical_answer", query, {"query": query}, calling)


async def _ask(llm: LLM, prompt: str, query: str, data: dict[str, Any], calling: Calling | None) -> str:
    """Return the model's answer, or the query if the answer is unusable."""
    if not query.strip():
        return query
    calling = calling or Calling()
    seconds = TIMEOUT if calling.seconds is None else calling.seconds
    try:
        async with asyncio.timeout(seconds):
            answer = await llm.generate(
                load(prompt),
                json.dumps(data, ensure_ascii=False),
                temperature=calling.temperature,
                max_tokens=calling.max_tokens,
            )
    except TimeoutError:
        raise LLMError(f"rewriting a query took longer than {seconds:g} s", code="timeout") from None
    said = _sentence(answer)
    return said if 0 < len(said) <= calling.longest else query


def _sentence(answer: str) -> str:
    """Return an answer's first paragraph on one line, without thoughts, introduction and quotation marks."""
    lines = _THOUGHTS.sub("", answer).strip()
    first, *rest = _PARAGRAPHS.split(lines)
    if first.endswith(":") and rest:
        first = rest[0]
    announced, broken, said = first.partition("\n")
    text = " ".join((said if broken and announced.rstrip().endswith(":") else first).split())
    inner = text[1:-1]
    quoted = text[:1] + text[-1:] in _QUOTES and len(text) > 1
    return inner.strip() if quoted and not set(inner) & {text[0], text[-1]} else text


MAX_VAGUE_LENGTH = 20  # characters up to which a query is taken as leaning on what came before
EARLIER_MESSAGES = 3  # how many earlier messages of the user lend their key words
_VAGUE = Pattern(r"^how much\??$|^what about|^and that|^this one", re.IGNORECASE)
_WORD = Pattern(r"[^\W_][\w'’-]*")


def is_self_contained(query: str) -> bool:
    """Whether the query says by itself what it is about."""
    text = query.strip()
    return len(text) > MAX_VAGUE_LENGTH and not _VAGUE.search(text)


def key_terms(text: str) -> list[str]:
    """Return the topic words of a text, in order, each once."""
    stop = words("recall_stopwords.txt")
    seen: dict[str, str] = {}
    for match in _WORD.finditer(text):
        word = match.group().strip("'’-")
        if word and word.casefold() not in stop:
            seen.setdefault(word.casefold(), word)
    return list(seen.values())


def with_history(query: str, history: Sequence[Message]) -> str:
    """Return the query, with the key terms of the last three user messages (newest first) if it needs them."""
    if is_self_contained(query):
        return query
    earlier = [message.content for message in reversed(history) if message.role == "user"][:EARLIER_MESSAGES]
    terms: dict[str, str] = {}
    for text in earlier:
        for term in key_terms(text):
            terms.setdefault(term.casefold(), term)
    return " ".join([query, *terms.values()]) if terms else query
