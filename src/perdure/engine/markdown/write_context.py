"""Describe the changes between two versions of memory files, for commit messages and the lines of `log`."""

from __future__ import annotations

import re

from perdure.backends.git.base import Replaced, Step
from perdure.domain.memory import FILE_PATH, FILES, MemoryItem
from perdure.pipeline.curation.rules.slots import read

TITLE = 72  # maximum characters of a commit's first line, so that git's tools show it whole
LINE = 300
LINES = 50  # maximum characters of a line, and maximum lines, of a message
BY_HAND = "Edited by hand: "
UNREAD, MENDED = "Unreadable file, memory stays: ", "File mended: "
_OWNED = re.compile(r"^[^']+'s ((?:\w+ ){0,2}\w+) (?:is|are) ")
_NOT_SHOWN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def message_of(step: Step, heading: str = "") -> str:
    """Return the message of a commit: a title, and below it the changes, one a line. Erased text is not in it."""
    lines = lines_of(step, LINES) or ["Update memory"]
    count = max(1, _count(step))
    title = _shortened(heading + lines[0], TITLE)
    if count == 1 and title == heading + lines[0]:
        return title
    others = count - bool(step.said) - bool(step.others) - 1
    if others > 0:
        more = f" (and {others} more)"
        title = _shortened(heading + lines[0], TITLE - len(more)) + more
    shown = [f"- {line}" for line in lines[:LINES]]
    left = [] if count <= LINES else [f"- and {count - LINES} more"]
    return "\n".join([title, "", *shown, *left])


def _count(step: Step) -> int:
    summed = step.erased, step.marked, step.said, step.unsaid, step.cleared and not step.erased, step.others
    each = len(step.replaced) + len(step.learned) + len(step.dropped) + len(step.summaries)
    each += len(step.unread) + len(step.mended)
    return each + sum(map(bool, summed))


def lines_of(step: Step, most: int | None = None) -> list[str]:
    """Return the changes, a line each; of each sort at most `most`."""
    lines = [of_replaced(pair) for pair in step.replaced[:most]]
    lines += [f"Learned: {shown(item)}" for item in step.learned[:most]]
    lines += [f"Deleted: {shown(item)}" for item in step.dropped[:most]]
    if step.erased:
        lines.append(f"Forgot {_counted(len(step.erased), 'memory', 'memories')}")
    lines += [f"{UNREAD}{shown(item)}" for item in step.unread[:most]]
    lines += [f"{MENDED}{shown(item)}" for item in step.mended[:most]]
    lines += [f"Summed up {_where(item)}" for item in step.summaries[:most]]
    if step.marked:
        lines.append(f"Noted something of {_counted(len(step.marked), 'memory', 'memories')}")
    if step.said:
        lines.append(f"Heard {_counted(len(step.said), 'message', 'messages')}")
    if step.unsaid:
        lines.append(f"Removed {_counted(step.unsaid, 'message', 'messages')}")
    if step.cleared and not step.erased:
        lines.append(f"Cleared {_counted(step.cleared, 'earlier text', 'earlier texts')}")
    if step.others:
        lines.append(f"Changed {_counted(step.others, 'other file', 'other files')}")
    return lines


def of_replaced(pair: Replaced) -> str:
    """Describe a change of one memory: "User's home: Oslo → Bergen" for an attribute's values, else both texts."""
    before, after = pair.before, pair.after
    if after.kind == FILES:
        return f"Edited {shown(after)}"
    told = _of_texts(before, after)
    return f"{BY_HAND}{told}" if is_by_hand(pair) else told


def is_by_hand(pair: Replaced) -> bool:
    """Whether a person edited a memory's text: all other changes also record a time."""
    one, two = pair.before, pair.after
    return (
        one.id == two.id and one.memory != two.memory and (one.updated_at, one.version) == (two.updated_at, two.version)
    )


def _of_texts(before: MemoryItem, after: MemoryItem) -> str:
    attribute = _attribute(before, after)
    if attribute is None or before.slots is None or after.slots is None:
        return f"{shown(before)} → {shown(after)}"
    owner = _spelled(after.slots.subject, after.memory) or after.slots.subject
    old, new = _spelled(before.slots.value, before.memory), _spelled(after.slots.value, after.memory)
    if old is None or new is None:
        return f"{shown(before)} → {shown(after)}"
    nouns = {found[1] if (found := _OWNED.search(item.memory)) else None for item in (before, after)}
    noun = nouns.pop() if len(nouns) == 1 else None
    return _on_one_line(f"{owner[:1].upper()}{owner[1:]}'s {noun or attribute}: {old} → {new}")


def shown(item: MemoryItem) -> str:
    """Return a memory's text on one line, shortened; for an agent's file its path."""
    if item.kind == FILES and isinstance(path := item.metadata.get(FILE_PATH), str):
        return _shortened(f"the file {_on_one_line(path)}", LINE)
    return _shortened(_on_one_line(item.memory), LINE)


def _attribute(before: MemoryItem, after: MemoryItem) -> str | None:
    """Return the single-valued attribute that both texts give, if it has a name."""
    old, new = before.slots, after.slots
    if old is None or new is None or (old.subject, old.attribute) != (new.subject, new.attribute):
        return None
    if not (old.polarity and new.polarity and old.value and new.value) or old.value == new.value:
        return None
    named = {slot.attribute for item in (before, after) for slot in read(item.memory).slots if slot.single}
    return new.attribute.replace("_", " ") if new.attribute in named else None


def _spelled(words: str, text: str) -> str | None:
    """Return words in a text's own spelling: those of slots are in lower case, and may be stems."""
    found = re.search(r"(?<!\w)" + r"\w*\W+".join(map(re.escape, words.split())) + r"\w*", text, re.IGNORECASE)
    return found[0] if found else None


def _where(item: MemoryItem) -> str:
    return _shortened(_on_one_line(item.scope.run_id or "what was said"), LINE)


def _counted(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _on_one_line(text: str) -> str:
    return " ".join(_NOT_SHOWN.sub(" ", text).split())


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"
