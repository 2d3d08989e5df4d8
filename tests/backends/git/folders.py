"""Folders of memories as files, put there by hand, and git as a user runs it."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from perdure.backends.git.base import Step
from perdure.backends.git.snapshots import GitVersions
from perdure.backends.markdown.layout import place_of
from perdure.backends.markdown.memory_file import render
from perdure.domain.memory import VERSION, MemoryItem, text_hash
from perdure.domain.scope import Scope
from perdure.pipeline.curation.rules.slots import read_slots


def git(folder: Path, *arguments: str, check: bool = True) -> str:
    """Run git as its user does."""
    identity = ("-c", "user.name=Una", "-c", "user.email=una@localhost")
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, env=env)
    assert done.returncode == 0 or not check, done.stderr
    return done.stdout


def moment(second: int) -> str:
    """A moment of one day, in the fixed form."""
    return f"2026-03-01T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.000000+00:00"


def fact(
    text: str, second: int = 0, *, name: str = "", run: str = "talk", kind: str = "facts", **more: Any
) -> MemoryItem:
    """A memory with an id of its name, or of its text."""
    at = moment(second)
    role = {"facts": "memory", "summaries": "summary", "messages": "user"}[kind]
    return MemoryItem(
        id=str(uuid5(NAMESPACE_URL, name or text)), memory=text, hash=text_hash(text), scope=Scope(run_id=run),
        created_at=moment(0), updated_at=at, told_at=at, valid_from=at, kind=kind, role=role,
        slots=read_slots(text) if kind == "facts" else None,
    ).with_(**more)  # fmt: skip


def words(step: Step) -> str:
    """A step as a message of the tests."""
    return f"{len(step.learned)} learned, {len(step.replaced)} replaced, {len(step.dropped)} dropped"


@dataclass
class Folder:
    """A memory's files and their versions."""

    root: Path
    versions: GitVersions = field(init=False)

    def __post_init__(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        self.versions = GitVersions(self.root)

    def path(self, item: MemoryItem) -> Path:
        return self.root / "entries" / place_of(item.id, item.to_payload())

    def put(self, *items: MemoryItem) -> None:
        for item in items:
            path = self.path(item)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(render(item.id, item.to_payload()), encoding="utf-8")

    def remove(self, item: MemoryItem) -> None:
        self.path(item).unlink()

    def bury(self, item: MemoryItem, second: int, replaced_by: MemoryItem | None = None) -> None:
        """Move a memory's file to the deleted ones, as the store does."""
        tombstone = item.with_(
            id=str(uuid5(NAMESPACE_URL, item.id + moment(second))), state=VERSION, version_of=item.id,
            untold_at=moment(second), replaced_by=None if replaced_by is None else replaced_by.id,
        )  # fmt: skip
        self.put(tombstone)
        self.remove(item)

    def replace(self, old: MemoryItem, new: MemoryItem, second: int) -> None:
        self.put(new)
        self.bury(old, second, new)

    def texts(self) -> list[str]:
        """What the live files of the folder say, sorted."""
        return sorted(body(path) for path in self.files() if "deleted" not in path.parts)

    def buried(self) -> list[str]:
        return sorted(body(path) for path in self.files() if "deleted" in path.parts)

    def files(self) -> list[Path]:
        return sorted(self.root.glob("entries/**/*.md"))

    def subjects(self, folder: Path | None = None) -> list[str]:
        return git(folder or self.root, "log", "--format=%s").splitlines()

    def status(self) -> str:
        return git(self.root, "status", "--porcelain")


def body(path: Path) -> str:
    return path.read_text(encoding="utf-8").split("---\n", 2)[2].strip()
