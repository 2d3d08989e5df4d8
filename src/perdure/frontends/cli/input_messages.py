"""Read the input of commands: text from arguments or standard input, messages from a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from perdure.domain.errors import InvalidInputError
from perdure.domain.text.readable import kind_of

STDIN = "-"  # the argument for standard input


def read_words(words: Sequence[str], what: str) -> str:
    """Return the text of an argument that may be several words; `-` alone is standard input."""
    if list(words) == [STDIN]:
        return read_bytes(Path(STDIN), what).rstrip("\n")
    return " ".join(words)


def read_bytes(path: Path, what: str) -> str:
    """Return the content of a file or of standard input."""
    try:
        data = sys.stdin.buffer.read() if str(path) == STDIN else path.expanduser().read_bytes()
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be read: {error.strerror}") from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{what} must be UTF-8: {error}", field=what) from error


def read_conversation(path: Path) -> list[Any]:
    """Return the messages of a file: a JSON list, one message, an object with `messages`, or one message a line."""
    text = read_bytes(path, "messages")
    try:
        value = json.loads(text)
    except ValueError as whole:
        try:
            value = [json.loads(line) for line in text.split("\n") if line.strip()]
        except ValueError:
            raise InvalidInputError(f"{path} holds no JSON: {whole}", field="messages") from whole
    if isinstance(value, dict):
        value = value.get("messages", [value])
    if not isinstance(value, list):
        raise InvalidInputError(
            f"{path} must hold a list of messages, not {kind_of(value)}", field="messages", value=value
        )
    return value
