"""Contexts: what reading a conversation came to so far is kept, so that its next message is not read after all others.

Of a conversation that goes on, each message would else be read again as context to each of those that follow it.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence

from perdure.domain.message import Message
from perdure.pipeline.extraction.discourse import Discourse

MOST_CONVERSATIONS = 512
"""Conversations that are kept, those read last."""
MOST_DRAFTS = 200
"""Drafts of a conversation that is kept: some kilobytes each at most. A longer one is read anew."""


class Contexts:
    """What was read of contexts, by all of their messages; for any number of threads.

    What is kept is a function of the messages alone: with it or without, the same facts are read.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, Discourse] = OrderedDict()
        self._guard = threading.Lock()

    def begun(self, context: Sequence[Message]) -> tuple[int, Discourse]:
        """How many of the context's first messages need not be read, and what they came to."""
        marks = _marks(context)
        with self._guard:
            for count in range(len(marks), 0, -1):
                known = self._kept.get(marks[count - 1])
                if known is not None:
                    self._kept.move_to_end(marks[count - 1])
                    return count, known.copy()
        return 0, Discourse()

    def keep(self, context: Sequence[Message], count: int, talk: Discourse) -> None:
        """Keep what the whole context came to, in place of what its first `count` messages did."""
        marks = _marks(context)
        if not marks or len(talk.drafts) > MOST_DRAFTS:
            return
        with self._guard:
            if count:
                self._kept.pop(marks[count - 1], None)
            self._kept[marks[-1]] = talk.copy()
            while len(self._kept) > MOST_CONVERSATIONS:
                self._kept.popitem(last=False)

    def __len__(self) -> int:
        return len(self._kept)


def _marks(context: Sequence[Message]) -> list[bytes]:
    """A digest of all messages up to each; none where a moment is missing, which is then that of the reading."""
    marks: list[bytes] = []
    said = hashlib.blake2b(digest_size=16)
    for message in context:
        if message.timestamp is None:
            return []
        for part in (message.role, message.name or "", message.timestamp.isoformat(), message.content):
            encoded = part.encode("utf-8", "surrogatepass")
            said.update(len(encoded).to_bytes(8, "big") + encoded)
        marks.append(said.digest())
    return marks
