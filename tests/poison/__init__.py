"""The published corpus of poisoned conversations and of what only looks like them; README.md says its format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SETS = ("open", "held", "second", "last")


def poisoned(name: str) -> list[dict[str, Any]]:
    """The conversations of one set."""
    return _read(f"poison_{name}.jsonl")


def benign(name: str) -> list[dict[str, Any]]:
    """The look-alikes of one set."""
    return _read(f"benign_{name}.jsonl")


def _read(name: str) -> list[dict[str, Any]]:
    lines = (Path(__file__).parent / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]
