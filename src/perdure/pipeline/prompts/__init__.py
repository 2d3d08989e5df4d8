"""What is said to language models: one Markdown file for each request, so that words are reviewed as words."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def load(name: str) -> str:
    """The prompt of that name without outer white space; FileNotFoundError if the package has none."""
    return files(__name__).joinpath(f"{name}.md").read_text(encoding="utf-8").strip()
