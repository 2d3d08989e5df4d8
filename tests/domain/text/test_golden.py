"""The text toolkit gives, on real lines, what its readers gave before they were merged.

Write the files anew, after a change that is meant, with `python -m tests.domain.text.test_golden`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from perdure.domain.text import terms
from perdure.pipeline.curation.llm import summary
from perdure.pipeline.curation.rules.extraction import times as extraction_times
from perdure.pipeline.curation.rules.relations import names as relation_names
from perdure.pipeline.curation.rules.relations import times as relation_times
from perdure.pipeline.curation.rules.slots.scan import fold, scan, stem
from perdure.pipeline.curation.rules.slots.typed import type_values
from perdure.pipeline.maintenance import probes
from perdure.pipeline.prompting import compaction
from perdure.pipeline.retrieval import names as index_names
from perdure.pipeline.retrieval import reflection, rescoring, search_gate, time_window
from perdure.pipeline.retrieval import words as retrieval_words
from tests.domain.text.lines import LINES

NOW = datetime(2026, 3, 14, 10, 30, tzinfo=UTC)

READERS: dict[str, dict[str, Callable[[str], Any]]] = {
    "stems": {
        "porter": terms.words,
        "slots": lambda line: [stem(fold(word)) for word in line.split()],
        "compaction": lambda line: [compaction._stem(word) for word in line.split()],
    },
    "words": {
        "index": lambda line: list(terms.runs(line)),
        "query": terms.query_words,
        "retrieval": retrieval_words.tokens,
        "rescoring": rescoring._tokens,
        "routing": search_gate._spaced,
        "reflection": lambda line: sorted(reflection._words(line)),
        "summary": summary._words,
        "probes": probes._words,
        "names": lambda line: [index_names._fold(word) for word in line.split()],
        "entities": relation_names._core,
        "slots": lambda line: [[token.low, token.stem, token.name] for token in scan(line)],
    },
    "dates": {
        "extraction": lambda line: extraction_times.validity(line, NOW),
        "relations": lambda line: [asdict(relation_times.take_times(line, NOW, way)) for way in (-1, 0, 1)],
        "slots": lambda line: [asdict(token.value) for token in type_values(scan(line)) if token.value],
        "retrieval": lambda line: [time_window.temporal_words(line), time_window.parse(line, NOW)],
    },
}


def outputs(kind: str) -> dict[str, list[str]]:
    """Each reader's output for each line, as text."""
    return {name: [repr(read(line)) for line in LINES] for name, read in READERS[kind].items()}


def golden(kind: str) -> Path:
    return Path(__file__).with_name(f"golden_{kind}.json")


@pytest.mark.parametrize("kind", READERS)
def test_readers_give_what_they_gave(kind: str) -> None:
    recorded = json.loads(golden(kind).read_text(encoding="utf-8"))
    for name, lines in outputs(kind).items():
        for line, was, now in zip(LINES, recorded[name], lines, strict=True):
            assert now == was, f"{name} of {line!r}"


if __name__ == "__main__":
    for each in READERS:
        golden(each).write_text(json.dumps(outputs(each), ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
