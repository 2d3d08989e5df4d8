"""Paths below `/memories`, as an agent writes them: what is one, and what would lead elsewhere or deceive a reader.

A path is refused, and never mended: an agent that was talked into `..` is to see that it leads nowhere.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from urllib.parse import unquote

ROOT = "/memories"
"""The folder that an agent sees."""
LONGEST_PATH, LONGEST_NAME, DEEPEST = 500, 100, 12
"""Characters of a path below the root and of a name in it, and names in a path."""
_REFUSED_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Control characters, hidden ones, and what is no character."""
_SHOWN = 200


class Refused(Exception):
    """The command cannot be carried out; the text is the answer that the agent gets."""


def read_path(path: object) -> str:
    """The path below the root without slashes at its ends, "" for the root itself; Refused for what is none."""
    if not isinstance(path, str):
        raise Refused("Error: A path must be text")
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise Refused(f"Error: Path must start with {ROOT}, got: {_shown(path)}")
    below = path.removeprefix(ROOT).strip("/")
    if not below:
        return ""
    names = below.split("/")
    if len(below) > LONGEST_PATH or len(names) > DEEPEST or any(len(name) > LONGEST_NAME for name in names):
        raise Refused(
            f"Error: Path {_shown(path)} is too long: at most {LONGEST_PATH} characters, {DEEPEST} names, and"
            f" {LONGEST_NAME} characters a name"
        )
    for name in names:
        _check(name, path)
    return below


def _check(name: str, path: str) -> None:
    plain = unicodedata.normalize("NFKC", unquote(unquote(name))).strip()
    if plain in ("", ".", "..") or "/" in plain or "\\" in plain:
        raise Refused(f"Error: Path {_shown(path)} would escape {ROOT} directory")
    if any(unicodedata.category(each) in _REFUSED_CATEGORIES for each in plain):
        raise Refused(f"Error: Path {_shown(path)} has characters that no file name may have")
    if name.strip() != name or unicodedata.normalize("NFC", name) != name:
        raise Refused(f"Error: Path {_shown(path)} has a name that reads like another one")
    if plain.startswith("."):
        raise Refused(f"Error: Path {_shown(path)} is of a hidden file, and these are not kept")


def _shown(path: str) -> str:
    """A path in an answer: no longer than needed, with nothing in it that could not be shown."""
    cut = path if len(path) <= _SHOWN else f"{path[:_SHOWN]}..."
    return "".join(each if unicodedata.category(each) not in _REFUSED_CATEGORIES else "\ufffd" for each in cut)


def absolute(path: str) -> str:
    """The path as the agent writes it."""
    return f"{ROOT}/{path}" if path else ROOT


def folded(path: str) -> str:
    """What is equal for paths that some file system, or some reader, would take for the same."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", path).casefold())


def numbered(path: str, number: int) -> str:
    """The path of the second, third, ... file that has the same one."""
    stem, dot, ending = path.rpartition(".")
    if number == 1:
        return path
    return f"{stem}.{number}.{ending}" if dot and "/" not in ending else f"{path}.{number}"


def folders_of(path: str) -> list[str]:
    """The folders that a path lies in, outermost first."""
    names = path.split("/")
    return ["/".join(names[:end]) for end in range(1, len(names))]


def check_free(path: str, taken: Iterable[str]) -> None:
    """Refused where a file of this path cannot be made beside those that there are."""
    if not path:
        raise Refused(f"Error: File {ROOT} already exists")
    files = list(taken)
    spelled = {folded(each): each for each in files}
    folders = {folded(folder): folder for each in files for folder in folders_of(each)}
    if folded(path) in spelled or folded(path) in folders:
        raise Refused(f"Error: File {absolute(path)} already exists")
    for folder in folders_of(path):
        if folded(folder) in spelled:
            raise Refused(f"Error: {absolute(folder)} is a file, and not a directory")
        if folders.get(folded(folder), folder) != folder:
            raise Refused(f"Error: There is a directory {absolute(folders[folded(folder)])}: use its name as it is")
