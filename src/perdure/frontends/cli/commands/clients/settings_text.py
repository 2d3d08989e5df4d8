"""Settings files of clients, as text: an entry is put into one and taken out again, and all else stays as it is."""

from __future__ import annotations

import json
import os
import re
import shutil
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from perdure.domain.errors import PerdureError

NAME = "perdure"
"""The name of the entry in every client."""
BACKUP = ".before-perdure"
"""Ending of the copy of a file as it was before perdure changed it."""

Entry = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of one settings file that can be taken back; both functions return a file's new text."""

    file: Path
    put: Callable[[str], str]
    take: Callable[[str], str]
    holds: Callable[[str], bool]

    def fresh(self) -> str:
        """Return the text of the file if it had nothing else."""
        return self.put("")

    def check(self) -> None:
        """Raise PerdureError if the file has a form that cannot be changed."""
        self._of_file(self.put, self._text() or "")

    def install(self) -> str:
        """Write the entry; "written", or "unchanged" if it is there as it should be."""
        old = self._text()
        new = self._of_file(self.put, old or "")
        if new == old:
            return "unchanged"
        if old is not None and not self.holds(old):  # a second install keeps the copy of the first
            self._write(self.backup, old)
        self._write(self.file, new)
        return "written"

    def remove(self) -> str:
        """Take the entry out: "removed", "restored" byte for byte, or "not there"."""
        now = self._text()
        if now is None or not self._of_file(self.holds, now):
            return "not there"
        before = self.backup.read_bytes().decode("utf-8", "replace") if self.backup.is_file() else None
        if before is not None and not self.holds(before) and self._is_ours(before, now):
            self._write(self.file, before)
            self.backup.unlink()
            return "restored"
        if before is None and self._is_ours("", now):
            self.file.unlink()
            return "removed with its file, which had nothing else"
        self._write(self.file, self._of_file(self.take, now))
        return "removed"

    def with_more(self, other: Edit) -> Edit:
        """Return this change and another one of the same file as one, so that the file is copied before both."""
        return Edit(
            self.file,
            lambda text: other.put(self.put(text)),
            lambda text: self.take(other.take(text)),
            lambda text: self.holds(text) or other.holds(text),
        )

    @property
    def backup(self) -> Path:
        """The file's copy."""
        return self.file.with_name(self.file.name + BACKUP)

    def _of_file(self, change: Callable[[str], T], text: str) -> T:
        """Apply a function to the file's text; its error names the file."""
        try:
            return change(text)
        except PerdureError as error:
            raise PerdureError(f"{self.file}: {error.message}", code=error.code) from error

    def _is_ours(self, before: str, now: str) -> bool:
        """Whether a text is the one before and the entry that stands in it now, whatever its options."""
        try:
            return self.take(self.put(before)) == self.take(now)
        except PerdureError:
            return False

    def _text(self) -> str | None:
        try:
            return self.file.read_bytes().decode("utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise PerdureError(f"{self.file} cannot be read: {error}; nothing was changed") from error

    def _write(self, file: Path, text: str) -> None:
        try:
            target = file.resolve()  # a link to a folder of dotfiles stays one
            target.parent.mkdir(parents=True, exist_ok=True)
            part = target.with_name(f"{target.name}.{os.getpid()}.part")
            part.write_bytes(text.encode("utf-8"))
            if target.exists():
                shutil.copymode(target, part)
            elif self.file.exists():
                shutil.copymode(self.file, part)
            part.replace(target)
        except OSError as error:
            raise PerdureError(f"{file} cannot be written: {error}") from error


# ---------------------------------------------------------------- JSON with comments

_TOKENS = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*[\s\S]*?\*/|[{}\[\],:]|[^\s{}\[\],:"/]+|\S')
Token = re.Match[str]


def _tokens(text: str) -> list[Token]:
    return [token for token in _TOKENS.finditer(text) if not token.group().startswith(("//", "/*"))]


def parse_json(text: str) -> dict[str, Any]:
    """Return the object of a text that may have comments and a comma after the last member."""
    tokens = [token.group() for token in _tokens(text)]
    plain = " ".join(
        part for part, after in zip(tokens, [*tokens[1:], ""], strict=False) if part != "," or after not in ("}", "]")
    )
    try:
        found = json.loads(plain or "{}")
    except ValueError as error:
        raise PerdureError(f"the settings are not JSON: {error}; correct them first, nothing was changed") from error
    if not isinstance(found, dict):
        raise PerdureError("the settings are no JSON object; correct them first, nothing was changed")
    return found


def _members(tokens: list[Token], at: int) -> Iterator[tuple[int, int, int]]:
    """Yield the places of each member's name, first and last token, of the object that opens at a place."""
    place = at + 1
    while tokens[place].group() != "}":
        if tokens[place].group() == ",":
            place += 1
            continue
        first = last = place + 2
        depth = 0
        while True:
            depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(tokens[last].group(), 0)
            if depth == 0:
                break
            last += 1
        yield place, first, last
        place = last + 1


def _member(tokens: list[Token], at: int, name: str) -> tuple[int, int, int] | None:
    return next((each for each in _members(tokens, at) if json.loads(tokens[each[0]].group()) == name), None)


def json_put(text: str, key: str, entry: Entry) -> str:
    """Return a text with the entry put into the table `key`."""
    if not text.strip():
        return json.dumps({key: {NAME: entry}}, ensure_ascii=False, indent=2) + "\n"
    tokens = _tokens(text)
    first = next(iter(_members(tokens, 0)), None)
    start = text.rfind("\n", 0, tokens[first[0]].start()) + 1 if first is not None else 0
    lead = text[start : tokens[first[0]].start()] if first is not None else ""
    unit = lead if lead and not lead.strip() else "  "
    servers = _member(tokens, 0, key)
    if servers is None:
        return _inserted(text, tokens[0].end(), f"{json.dumps(key)}: {_lines({NAME: entry}, unit, 1)}", (unit, 1))
    held = _member(tokens, servers[1], NAME)
    value = _lines(entry, unit, 2)
    if held is not None:
        return text[: tokens[held[1]].start()] + value + text[tokens[held[2]].end() :]
    return _inserted(text, tokens[servers[1]].end(), f'"{NAME}": {value}', (unit, 2))


def _lines(value: Any, unit: str, depth: int) -> str:
    return json.dumps(value, ensure_ascii=False, indent=unit).replace("\n", "\n" + unit * depth)


def _inserted(text: str, at: int, member: str, indent: tuple[str, int]) -> str:
    """Return a text with a member put first into the object that opens just before a place."""
    unit, depth = indent
    line, rest = "\n" + unit * depth, text[at:]
    if _tokens(rest)[0].group() == "}":
        is_open = rest.startswith(("\n", "\r"))
        return text[:at] + line + member + (rest if is_open else "\n" + unit * (depth - 1) + rest.lstrip(" "))
    return text[:at] + line + member + "," + ("" if rest.startswith(("\n", "\r")) else line) + rest


def json_take(text: str, key: str) -> str:
    """Return a text without the entry."""
    tokens = _tokens(text)
    servers = _member(tokens, 0, key)
    held = _member(tokens, servers[1], NAME) if servers is not None else None
    if held is None:
        return text
    name, _, last = held
    if tokens[last + 1].group() == ",":
        return text[: tokens[name - 1].end()] + text[tokens[last + 1].end() :]
    start = tokens[name - 1].start() if tokens[name - 1].group() == "," else tokens[name - 1].end()
    return text[:start] + text[tokens[last].end() :]


# ---------------------------------------------------------------- TOML and YAML, a block of lines


def parse_toml(text: str) -> dict[str, Any]:
    """Return the table of a text."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PerdureError(f"the settings are not TOML: {error}; correct them first, nothing was changed") from error


_TOML_BLOCK = r'^\n?\[KEY\.(?:perdure|"perdure")(?:\.[^\]\n]*)?\][^\n]*(?:\n(?!\s*\[)[^\n]*)*\n?'


def toml_put(text: str, key: str, entry: Entry) -> str:
    """Return a text with the entry as the last table."""
    text = toml_take(text, key)
    block = "".join(f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in entry.items())
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    return f"{text}{gap}[{key}.{NAME}]\n{block}"


def toml_take(text: str, key: str) -> str:
    """Return a text without the entry."""
    return re.sub(_TOML_BLOCK.replace("KEY", re.escape(key)), "", text, flags=re.MULTILINE)


def parse_yaml(text: str) -> dict[str, Any]:
    """Return the blocks below the top names, as lines: enough to see that only ours has changed."""
    found: dict[str, Any] = {}
    held: dict[str, Any] = found
    for block in re.split(r"^(?=[^\s#])", text, flags=re.MULTILINE):
        name, _, rest = block.partition(":")
        if name.strip() != "extensions":
            held[name] = rest
            continue
        if rest.split("\n")[0].split("#")[0].strip() not in ("", "{}"):
            raise PerdureError("extensions are on one line: give each a line of its own; nothing was changed")
        body = rest.partition("\n")[2]
        indent = re.search(r"^( +)[^\s#]", body, flags=re.MULTILINE)
        parts = re.split(rf"^{indent.group(1)}(?=[^\s#-])", body, flags=re.MULTILINE) if indent else []
        held["extensions"] = {
            each.partition(":")[0]: _yaml_entry(each.partition(":")[2]) for each in parts if ":" in each
        }
    return found


def _yaml_entry(body: str) -> dict[str, Any] | str:
    """Return an entry whose values are JSON, as ours are; else its text."""
    try:
        return {
            name.strip(): json.loads(value)
            for name, _, value in (line.partition(":") for line in body.strip().splitlines())
        }
    except ValueError:
        return body


def yaml_put(text: str, key: str, entry: Entry) -> str:
    """Return a text with the entry put into the block `key`."""
    text = yaml_take(text, key)
    head = re.search(rf"^{key}:[ \t]*(\{{\}})?[ \t]*(#[^\n]*)?(?:\n|\Z)", text, flags=re.MULTILINE)
    child = re.match(r"(?:[ \t]*(?:#[^\n]*)?\n)*( +)\S", text[head.end() :]) if head else None
    indent = child.group(1) if child else "  "
    lines = [f"{indent}{NAME}:", *(f"{indent}  {name}: {json.dumps(value)}" for name, value in entry.items())]
    block = "\n".join(lines) + "\n"
    if head is None:
        return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}{key}:\n{block}"
    opening = head.group().replace("{}", "").rstrip() + "\n"
    return text[: head.start()] + opening + block + text[head.end() :]


def yaml_take(text: str, key: str) -> str:
    """Return a text without the entry."""
    found = re.search(rf"^( +){NAME}:[ \t]*\n(?:\1 +[^\n]*\n?)*", text, flags=re.MULTILINE)
    return text if found is None else text[: found.start()] + text[found.end() :]
