"""Remember what the gateway put into prompts, so that no answer's echo of it becomes a memory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from perdure.domain.memory import MemoryItem
from perdure.domain.scope import Scope
from perdure.engine.aio.degrade import degrade, never_fail
from perdure.engine.chat.memory_reader import Recalled
from perdure.engine.core.kernel import Kernel
from perdure.engine.write.provenance import bare_sentence
from perdure.pipeline.prompting.quoting import fingerprint, one_line

_NOT_NOTED = "what was injected is not noted: an echo of it may be read as something said"


async def injected(kernel: Kernel, scope: Scope, items: Iterable[MemoryItem], summary: str | None = None) -> None:
    """Remember for 30 days that these memories, and this summary, were put into a prompt of the scope.

    A write into the ledger: call it after the answer, not before. It never fails; what could not be noted may be
    extracted again from an echo, where it is an exact repeat of a memory that stands.
    """
    marks = marks_of(items, summary)
    with never_fail(_NOT_NOTED, []), degrade(_NOT_NOTED), kernel.lifecycle.in_flight():
        if kernel.ledger is not None and marks:
            await kernel.ledger.add_fingerprints(scope, marks)


def marks_of(items: Iterable[MemoryItem], summary: str | None = None) -> frozenset[str]:
    """The fingerprints of memories and of a summary, by which an echo of them is known again."""
    texts = [item.memory for item in items]
    if summary is not None:
        texts += [summary, *summary.splitlines()]
    return frozenset(fingerprint(bare_sentence(text)) for text in texts if text.strip())


def standing_in(body: bytes, recalled: Recalled) -> tuple[Sequence[MemoryItem], str | None]:
    """The memories, and the summary, that stand in a JSON body: what its budget left out was not injected."""

    def stands(said: str) -> bool:
        line = one_line(said)
        return bool(line) and json.dumps(line)[1:-1].encode() in body

    items = [each for each in (*recalled.canonical, *recalled.directives, *recalled.hits) if stands(each.memory)]
    return items, recalled.summary if recalled.summary and stands(recalled.summary) else None
