"""stub replaced below"""

from __future__ import annotations

from perdure.pipeline.extraction.discourse import Discourse


def language_of(text: str) -> str:
    return ""


def read(text: str, language: str, talk: Discourse, at: int) -> None:
    return None
