"""What was made of the messages of a conversation, so that the next message does not have them read again.

The messages before a new one are a window that slides: its first message goes, and one comes at its end. A cache of
states by all messages before them would find nothing, since each window begins elsewhere. So each message's own change
is kept, with what it was read beside (see `watched`): it is repeated wherever that is the same.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable

from perdure.domain.message import Message
from perdure.pipeline.curation.rules.extraction.dialogue.discourse import Discourse
from perdure.pipeline.curation.rules.extraction.dialogue.watched import Change, watch
from perdure.pipeline.curation.rules.memo import PerScope

MOST_MESSAGES = 48  # messages of one scope whose changes are kept, some 5 KB each: twice what an `add` looks back to
MOST_SCOPES = 128  # scopes in the cache; the least recently read ones leave it
MOST_CHANGES = 3  # changes kept of one message: the same words may be read beside different states
MOST_DRAFTS = 50  # drafts that a kept change may hold; a message of more is read again

Read = Callable[[Message, int, Discourse], None]


class Contexts:
    """A thread-safe cache of the changes that the messages of one scope made when they were read as context.

    A change is repeated only where all that was looked at is the same, so the cache never changes which facts are read.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, tuple[Change, ...]] = OrderedDict()
        self._guard = threading.Lock()

    def read(self, message: Message, talk: Discourse, reader: Read) -> None:
        """Bring a conversation's state up to after the message: as it was read before, else by `reader`."""
        mark = _mark(message)
        with self._guard:
            known = self._kept.get(mark, ())
            if known:
                self._kept.move_to_end(mark)
        change = next((each for each in known if each.fits(talk)), None)
        if change is None:
            watched = watch(talk)
            reader(message, -1, watched)
            change = Change.of(watched)
            if len(change.last) + len(change.tail) <= MOST_DRAFTS:
                self._keep(mark, change)
        change.apply(talk)

    def _keep(self, mark: bytes, change: Change) -> None:
        with self._guard:
            self._kept[mark] = (change, *self._kept.get(mark, ()))[:MOST_CHANGES]
            self._kept.move_to_end(mark)
            while len(self._kept) > MOST_MESSAGES:
                self._kept.popitem(last=False)

    def __len__(self) -> int:
        return len(self._kept)


def scoped_contexts() -> PerScope[Contexts]:
    """A cache of each scope's contexts."""
    return PerScope(Contexts, MOST_SCOPES)


def _mark(message: Message) -> bytes:
    """A digest of a message; its moment is read nowhere, yet tells "Thanks!" from the next "Thanks!" of one talk."""
    moment = "" if message.timestamp is None else message.timestamp.isoformat()
    said = hashlib.blake2b(digest_size=16)
    for part in (message.role, message.name or "", moment, message.content):
        encoded = part.encode("utf-8", "surrogatepass")
        said.update(len(encoded).to_bytes(8, "big") + encoded)
    return said.digest()
