"""Regular expressions that are compiled at first use, so that programs which need few of them start fast."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any


class Pattern:
    """A regular expression, compiled at its first use, which raises `re.error` if it is invalid."""

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self.pattern = pattern
        self._flags = flags

    # At its first use each method is replaced by the compiled pattern's own, so later calls cost nothing extra.

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """The compiled `re.Pattern`."""
        return re.compile(self.pattern, self._flags)

    @cached_property
    def search(self) -> Callable[..., re.Match[str] | None]:
        """The first match anywhere."""
        return self.compiled.search

    @cached_property
    def match(self) -> Callable[..., re.Match[str] | None]:
        """The match at the beginning."""
        return self.compiled.match

    @cached_property
    def fullmatch(self) -> Callable[..., re.Match[str] | None]:
        """The match of the whole text."""
        return self.compiled.fullmatch

    @cached_property
    def finditer(self) -> Callable[..., Iterator[re.Match[str]]]:
        """All matches, one after the other."""
        return self.compiled.finditer

    @cached_property
    def findall(self) -> Callable[..., list[Any]]:
        """The texts of all matches, or their groups."""
        return self.compiled.findall

    @cached_property
    def split(self) -> Callable[..., list[str | Any]]:
        """The text between the matches."""
        return self.compiled.split

    @cached_property
    def sub(self) -> Callable[..., str]:
        """The text with its matches replaced."""
        return self.compiled.sub

    @cached_property
    def subn(self) -> Callable[..., tuple[str, int]]:
        """The text with its matches replaced, and how many there were."""
        return self.compiled.subn
