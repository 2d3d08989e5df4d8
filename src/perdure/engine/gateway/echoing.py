"""Echoing: what the gateway put into a prompt is remembered, so that no answer's echo of it becomes a memory."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.domain.memory import MemoryItem
from perdure.domain.scope import Scope
from perdure.engine.hearing import bare_sentence
from perdure.engine.kernel import Kernel
from perdure.engine.soft import given_up
from perdure.pipeline.echo import fingerprint


async def injected(kernel: Kernel, scope: Scope, items: Sequence[MemoryItem], summary: str | None = None) -> None:
    """Remember for 30 days that these memories, and this summary, were put into a prompt of the scope.

    A write into the ledger: call it after the answer, not before. It never fails; what could not be noted may be
    extracted again from an echo, where it is an exact repeat of a memory that stands.
    """
    texts = [item.memory for item in items]
    if summary is not None:
        texts += [summary, *summary.splitlines()]
    marks = {fingerprint(bare_sentence(text)) for text in texts if text.strip()}
    if kernel.ledger is not None and marks:
        with given_up("what was injected is not noted: an echo of it may be read as something said"):
            await kernel.ledger.add_fingerprints(scope, marks)
