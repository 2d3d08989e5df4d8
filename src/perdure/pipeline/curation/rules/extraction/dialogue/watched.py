"""Record what reading one message takes from a conversation's state and what it changes, to repeat that later.

`watch` gives a state that notes each field, name and draft that is looked at, with the value that was found. `Change`
holds these and what became of them. A state in which all that was looked at is the same changes in the same way, so
`Change.apply` puts the result in place without reading the message again.
"""

from __future__ import annotations

import hashlib
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, MutableSequence
from dataclasses import dataclass, fields, replace
from typing import Any, overload

from perdure.domain.message import Message
from perdure.pipeline.curation.rules.extraction.dialogue.discourse import Discourse, Draft
from perdure.pipeline.curation.rules.memo import PerScope

COLLECTIONS = ("names", "kin", "drafts")
"""Fields that are watched entry by entry."""


class WatchedNames(MutableMapping[str, str]):
    """A mapping that notes which keys are looked up, and which are set."""

    def __init__(self, known: Mapping[str, str]) -> None:
        self._before = known
        self._known = dict(known)
        self.seen: dict[str, str | None] = {}
        self.asked: dict[str, bool] = {}
        self.written: dict[str, str | None] = {}
        self.whole: tuple[tuple[str, str], ...] | None = None

    def __getitem__(self, key: str) -> str:
        if key not in self.written:
            self.seen[key] = self._known.get(key)
        return self._known[key]

    def __contains__(self, key: object) -> bool:
        found = key in self._known
        if isinstance(key, str) and key not in self.written:
            self.asked[key] = found
        return found

    def __setitem__(self, key: str, value: str) -> None:
        self._known[key] = self.written[key] = value

    def __delitem__(self, key: str) -> None:
        self.written[key] = None
        del self._known[key]

    def __iter__(self) -> Iterator[str]:
        self.whole = tuple(self._before.items())
        return iter(self._known)

    def __len__(self) -> int:
        self.whole = tuple(self._before.items())
        return len(self._known)


class WatchedDrafts(MutableSequence[Draft]):
    """A list that notes how far back from its end it is looked at; the drafts before that stay as they are.

    Asking for its length is not noted: readers use that only to find what they added themselves.
    """

    def __init__(self, drafts: Iterable[Draft]) -> None:
        self._drafts = list(drafts)
        self._count = len(self._drafts)
        self.untouched = self._count
        self.seen: list[Draft] = []
        self.some: bool | None = None
        """Whether there was any draft at first; None where nobody asked."""
        self.whole = False
        """Whether all that was there at first was looked at, so that its number was seen too."""

    def _touch(self, place: int) -> None:
        if place < self.untouched:
            self.seen[:0] = [replace(draft) for draft in self._drafts[place : self.untouched]]
            self.untouched = place
            self.whole = self.whole or place == 0

    def _look(self, place: int | slice) -> None:
        """Note a look at a place, or from a place on."""
        count = len(self._drafts)
        first = (0 if place.start is None else place.start) if isinstance(place, slice) else place
        seen_start = first < -count or (isinstance(place, slice) and (place.start is None or place.step is not None))
        if seen_start or (isinstance(place, int) and place >= count):
            self._touch(0)
            self.whole = True
        else:
            self._touch(first + count if first < 0 else first)

    def __iter__(self) -> Iterator[Draft]:
        self._look(slice(None))
        return iter(self._drafts)

    def __reversed__(self) -> Iterator[Draft]:
        for place in reversed(range(len(self._drafts))):
            yield self[place]
        self.whole = True

    @overload
    def __getitem__(self, place: int) -> Draft: ...
    @overload
    def __getitem__(self, place: slice) -> list[Draft]: ...
    def __getitem__(self, place: int | slice) -> Draft | list[Draft]:
        self._look(place)
        return self._drafts[place]

    def __setitem__(self, place: int | slice, value: Any) -> None:
        self._look(place)
        self._drafts[place] = value

    def __delitem__(self, place: int | slice) -> None:
        self._look(place)
        del self._drafts[place]

    def __len__(self) -> int:
        return len(self._drafts)

    def __bool__(self) -> bool:
        if len(self._drafts) > self.untouched:
            return True  # by what was added or looked at, whatever stands before it
        if self.untouched == self._count:
            self.some = self._count > 0
        elif self.untouched:
            self._touch(self.untouched - 1)
        return bool(self._drafts)

    def insert(self, place: int, value: Draft) -> None:
        """Insert before `place`."""
        self._look(place)
        self._drafts.insert(place, value)

    def append(self, value: Draft) -> None:
        """Append without looking at what is there."""
        self._drafts.append(value)

    @property
    def tail(self) -> tuple[Draft, ...]:
        """The drafts behind the untouched ones, as they are by now."""
        return tuple(replace(draft) for draft in self._drafts[self.untouched :])


class _Field:
    """A field of a watched state: the first look at it is noted, unless it was set before."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._slot = getattr(Discourse, name)

    def __get__(self, talk: Watched, _: type | None = None) -> Any:
        value = self._slot.__get__(talk)
        if self._name not in talk.seen and self._name not in talk.written:
            talk.seen[self._name] = value
        return value

    def __set__(self, talk: Watched, value: Any) -> None:
        self._slot.__set__(talk, value)
        talk.written.add(self._name)


class Watched(Discourse):
    """A state that notes what is looked at and what is set."""

    __slots__ = ("seen", "written")
    seen: dict[str, Any]
    written: set[str]


PLAIN = tuple(field.name for field in fields(Discourse) if field.name not in COLLECTIONS)
"""Fields that are watched as a whole."""
for _name in PLAIN:
    setattr(Watched, _name, _Field(_name))


def watch(talk: Discourse) -> Watched:
    """A watched state that begins as this one, for one message; `talk` is then brought up to it by `Change.apply`."""
    watched = Watched.__new__(Watched)
    watched.seen, watched.written = {}, set()
    for name in PLAIN:
        setattr(watched, name, getattr(talk, name))
    watched.written.clear()
    watched.names, watched.kin = WatchedNames(talk.names), WatchedNames(talk.kin)
    watched.drafts = WatchedDrafts(talk.drafts)
    return watched


@dataclass(frozen=True, slots=True)
class _Names:
    """What was looked up in a mapping of names, and what was set."""

    seen: dict[str, str | None]
    present: tuple[str, ...]
    absent: tuple[str, ...]
    written: dict[str, str | None]
    whole: tuple[tuple[str, str], ...] | None

    @classmethod
    def of(cls, watched: Mapping[str, str]) -> _Names:
        assert isinstance(watched, WatchedNames)
        # Every word of a message may be asked for: interned, it is one string for all messages.
        present = tuple(sys.intern(key) for key, found in watched.asked.items() if found)
        absent = tuple(sys.intern(key) for key, found in watched.asked.items() if not found)
        return cls(watched.seen, present, absent, watched.written, watched.whole)

    def fits(self, names: Mapping[str, str]) -> bool:
        if self.whole is not None and self.whole != tuple(names.items()):
            return False
        same = all(names.get(key) == value for key, value in self.seen.items())
        return same and all(key in names for key in self.present) and not any(key in names for key in self.absent)

    def apply(self, names: MutableMapping[str, str]) -> None:
        for key, value in self.written.items():
            if value is None:
                names.pop(key, None)
            else:
                names[key] = value


@dataclass(frozen=True, slots=True)
class Change:
    """What one message was read beside, and what it made of it."""

    seen: dict[str, Any]
    written: dict[str, Any]
    names: _Names
    kin: _Names
    some: bool | None
    whole: bool
    last: tuple[Draft, ...]
    """The drafts at the end that were looked at."""
    tail: tuple[Draft, ...]
    """What stands in their place afterwards."""

    @classmethod
    def of(cls, talk: Watched) -> Change:
        """The change that was made to a watched state."""
        drafts = talk.drafts
        assert isinstance(drafts, WatchedDrafts)
        return cls(
            seen=dict(talk.seen),
            written={name: getattr(talk, name) for name in talk.written},
            names=_Names.of(talk.names),
            kin=_Names.of(talk.kin),
            some=drafts.some,
            whole=drafts.whole,
            last=tuple(drafts.seen),
            tail=drafts.tail,
        )

    def fits(self, talk: Discourse) -> bool:
        """Whether all that was looked at is the same in this state."""
        count = len(talk.drafts)
        if self.some not in (None, count > 0) or count < len(self.last) or (self.whole and count != len(self.last)):
            return False
        if any(getattr(talk, name) != value for name, value in self.seen.items()):
            return False
        last = talk.drafts[count - len(self.last) :]
        return all(map(Draft.__eq__, last, self.last)) and self.names.fits(talk.names) and self.kin.fits(talk.kin)

    def apply(self, talk: Discourse) -> None:
        """Make the same change to a state that `fits`."""
        for name, value in self.written.items():
            setattr(talk, name, value)
        self.names.apply(talk.names)
        self.kin.apply(talk.kin)
        talk.drafts[len(talk.drafts) - len(self.last) :] = [replace(draft) for draft in self.tail]


# The cache of those changes, so that the next message does not have the ones before it read again.
#
# The messages before a new one are a window that slides: its first message goes, and one comes at its end. A cache of
# states by all messages before them would find nothing, since each window begins elsewhere. So each message's own
# change is kept, with what it was read beside: it is repeated wherever that is the same.

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
