"""What the commands of a memory tool answer, and what they make of a text: Anthropic's published wording and shapes."""

from __future__ import annotations

from collections.abc import Mapping

from perdure.engine.markdown.tool_paths import Refused, absolute

WIDTH = 6
"""Characters that a line's number is set in."""
MOST_LINES = 999_999
MOST_LISTED = 1_000
"""Files and folders that a listing names; of more it says how many there are."""
_LEVELS = 2
_AROUND = 2
"""Lines before and after a change that are shown."""
_UNITS = "BKMG"


def listing(folder: str, sizes: Mapping[str, int]) -> str:
    """A folder's files and folders to two levels below it, with sizes in bytes; `sizes` are all files' by path."""
    prefix = f"{folder}/" if folder else ""
    total: dict[str, int] = {}
    for path, size in sizes.items():
        if not path.startswith(prefix):
            continue
        names = path.removeprefix(prefix).split("/")
        for end in range(1, min(len(names), _LEVELS) + 1):
            shown = "/".join(names[:end]) + ("/" if end < len(names) else "")
            total[shown] = total.get(shown, 0) + size
    top = absolute(folder)
    whole = sum(size for path, size in total.items() if path.rstrip("/").count("/") == 0)
    lines = [f"Here're the files and directories up to {_LEVELS} levels deep in {top}, excluding hidden items:"]
    lines.append(f"{_human(whole)}\t{top}")
    ordered = sorted(total, key=lambda path: path.rstrip("/").split("/"))
    lines += [f"{_human(total[path])}\t{top}/{path}" for path in ordered[:MOST_LISTED]]
    if len(ordered) > MOST_LISTED:
        lines.append(f"... and {len(ordered) - MOST_LISTED} more")
    return "\n".join(lines)


def _human(size: int) -> str:
    place, amount = 0, float(size)
    while amount >= 1024 and place < len(_UNITS) - 1:
        amount, place = amount / 1024, place + 1
    return f"{amount:.0f}{_UNITS[place]}" if amount == int(amount) else f"{amount:.1f}{_UNITS[place]}"


def content(path: str, text: str, view_range: object = None) -> str:
    """A file's lines with their numbers, all or from one to another; -1 is the last."""
    lines = text.split("\n")
    if len(lines) > MOST_LINES:
        raise Refused(f"File {absolute(path)} exceeds maximum line limit of 999,999 lines.")
    first, last = _read_range(view_range, len(lines))
    return f"Here's the content of {absolute(path)} with line numbers:\n{_numbered(lines, first, last)}"


def _read_range(view_range: object, count: int) -> tuple[int, int]:
    if view_range is None or view_range == []:  # models send both for all of it
        return 1, count
    if (
        not isinstance(view_range, (list, tuple))
        or len(view_range) != 2
        or not all(isinstance(each, int) and not isinstance(each, bool) for each in view_range)
    ):
        raise Refused("Error: Invalid `view_range` parameter: it should be a list of two line numbers.")
    first, last = view_range
    if not 1 <= first <= count or (last != -1 and last < first):
        raise Refused(
            f"Error: Invalid `view_range` parameter: {list(view_range)}. It should be within the range of lines of the"
            f" file: [1, {count}]"
        )
    return first, count if last == -1 else min(last, count)


def _numbered(lines: list[str], first: int, last: int) -> str:
    return "\n".join(f"{number:>{WIDTH}}\t{lines[number - 1]}" for number in range(first, last + 1))


def replaced(path: str, text: str, old: str, new: str) -> tuple[str, str]:
    """The text with the one place changed where `old` stands, and the answer; Refused unless it is one place."""
    if not old or old not in text:
        raise Refused(f"No replacement was performed, old_str `{old}` did not appear verbatim in {absolute(path)}.")
    places = [text.index(old)]
    while (place := text.find(old, places[-1] + 1)) != -1:
        places.append(place)
    if len(places) > 1:
        numbers = ", ".join(str(text.count("\n", 0, place) + 1) for place in places)
        raise Refused(
            f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {numbers}."
            " Please ensure it is unique"
        )
    result = text[: places[0]] + new + text[places[0] + len(old) :]
    lines, changed = result.split("\n"), text.count("\n", 0, places[0]) + 1
    first, last = max(1, changed - _AROUND), min(len(lines), changed + new.count("\n") + _AROUND)
    answer = "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
    return result, answer + _numbered(lines, first, last)


def inserted(path: str, text: str, line: object, added: str) -> tuple[str, str]:
    """The text with lines put in after a line (0: before the first), ending in a line end, and the answer."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    if not isinstance(line, int) or isinstance(line, bool) or not 0 <= line <= len(lines):
        raise Refused(
            f"Error: Invalid `insert_line` parameter: {line}. It should be within the range of lines of the file:"
            f" [0, {len(lines)}]"
        )
    lines.insert(line, added.removesuffix("\n"))
    return "\n".join(lines) + "\n", f"The file {absolute(path)} has been edited."
