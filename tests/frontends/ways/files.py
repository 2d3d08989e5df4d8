"""The folder itself: a person with an editor, where every memory is a Markdown file."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from perdure.backends.markdown.layout import DELETED, ENTRIES, folder_of
from tests.frontends.ways.base import AGENT, RUN, USER, Rows, Way, Where, bare

_NAMES = {RUN: "conversation_id", USER: "user_id", AGENT: "agent_id"}
"""The axes as they stand in a file."""


class Files(Way):
    """Files that are written, read, edited and removed; what changed is memory at the folder's next opening."""

    NAME, WRITES = "files", frozenset({USER, AGENT, RUN})

    def keep(self, where: Where, text: str) -> str:
        id, made = str(uuid.uuid4()), datetime.now(UTC)
        told = {"id": id, **{_NAMES[axis]: value for axis, value in where.items()}, "created_at": made.isoformat()}
        folder = self._entries / folder_of(where) / "facts"
        folder.mkdir(parents=True)
        front = "".join(f"{name}: {value}\n" for name, value in told.items())
        (folder / f"{made:%Y-%m-%d}__{id}.md").write_text(f"---\n{front}---\n{text}\n", encoding="utf-8")
        self._open()
        return id

    def get(self, id: str, where: Where) -> str | None:
        file = self._file(id)
        return None if file is None else _read(file)[1]

    def found(self, where: Where, query: str) -> list[str]:
        return [text for text in self.listed(where) if query in text]

    def listed(self, where: Where) -> list[str]:
        asked = {_NAMES[axis]: value for axis, value in where.items()}
        read = [_read(file) for file in self._facts()]
        return [text for told, text in read if asked.items() <= told.items()]

    def history(self, id: str, where: Where) -> Rows:
        return self.world.memory_rows(bare(id)) if self._file(id) is not None else []

    def change(self, id: str, where: Where, text: str) -> str | None:
        file = self._file(id)
        if file is None:
            return None
        front = file.read_text(encoding="utf-8").rpartition("---\n")[0]
        other = file.with_suffix(".tmp")  # as editors do: the new text under another name, then its own
        other.write_text(f"{front}---\n{text}\n", encoding="utf-8")
        other.replace(file)
        self._open()
        return id

    def delete(self, id: str, where: Where) -> bool:
        file = self._file(id)
        if file is not None:
            file.unlink()
            self._open()
        return file is not None

    @property
    def _entries(self) -> Path:
        return self.world.folder / ENTRIES

    def _open(self) -> None:
        """Somebody opens the memory, for whatever it is."""
        self.world.program.ask("list", "--user-id", "nobody")

    def _facts(self) -> Iterator[Path]:
        return (file for file in self._entries.glob("*/facts/*.md") if DELETED not in file.parts)

    def _file(self, id: str) -> Path | None:
        return next((file for file in self._facts() if _read(file)[0]["id"] == bare(id)), None)


def _read(file: Path) -> tuple[dict[str, str], str]:
    """What stands in front of a file's text, and the text."""
    _, front, text = file.read_text(encoding="utf-8").split("---\n", 2)
    pairs = (line.partition(": ") for line in front.splitlines())
    return {name: value.strip('"') for name, _, value in pairs}, text.strip()
