"""A language model whose good answers are kept: the same question in one scope is asked once (000 §16, DESIGN §3)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from perdure.backends.ledgers.base import Ledger
from perdure.backends.llms.base import LLM, ToolAnswer
from perdure.domain.scope import Scope


class Answers:
    """The answers that are kept for one scope, in the ledger; without a ledger none are."""

    def __init__(self, ledger: Ledger | None, scope: Scope) -> None:
        self._ledger = ledger
        self._scope = scope

    async def find(self, key: str) -> str | None:
        """The answer under a key, if it is kept."""
        return await self._ledger.cached(key, self._scope) if self._ledger is not None else None

    async def keep(self, answers: Mapping[str, str]) -> None:
        """Keep answers by their keys."""
        if self._ledger is not None:
            for key, answer in answers.items():
                await self._ledger.cache(key, self._scope, answer)


class RememberingLLM(LLM):
    """Asks a model what is not kept; what it answers is kept once the caller says that it was good.

    So an answer that could not be read is asked for anew, and does not stand in the way of a later repair. `label`
    names the model and its settings: another model's answers are not this one's.
    """

    name = "remembering"

    def __init__(self, llm: LLM, label: str, answers: Answers) -> None:
        self._llm = llm
        self._label = label
        self._answers = answers
        self._fresh: dict[str, str] = {}

    async def generate(
        self,
        system_prompt: str,
        user_message: str,
        *,
        temperature: float | None = None,
        max_tokens: int | None = None,
        response_format: Literal["json", "text"] = "text",
    ) -> str:
        """The kept answer, else the model's."""
        question = [self._label, system_prompt, user_message, temperature, max_tokens, response_format]
        key = f"llm:{hashlib.sha256(json.dumps(question).encode()).hexdigest()}"
        found = await self._answers.find(key)
        if found is None:
            found = self._fresh[key] = await self._llm.generate(
                system_prompt,
                user_message,
                temperature=temperature,
                max_tokens=max_tokens,
                response_format=response_format,
            )
        return found

    async def generate_with_tool_calls(
        self,
        system_prompt: str,
        user_message: str,
        tools: Sequence[Mapping[str, Any]],
        *,
        temperature: float | None = None,
    ) -> ToolAnswer:
        """The model's answer; those with tools are not kept."""
        return await self._llm.generate_with_tool_calls(system_prompt, user_message, tools, temperature=temperature)

    async def good(self) -> None:
        """Keep what the model has answered since."""
        fresh, self._fresh = self._fresh, {}
        await self._answers.keep(fresh)
