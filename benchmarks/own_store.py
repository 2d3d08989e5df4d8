"""Is what people told found again? `perdure bench` on a store of dialogues, by how messages are kept.

    python benchmarks/own_store.py DIALOGUES [--episodes words notes] [--embedder minilm|hashed] [--show N] [--json]

Each user message is one `add` with the assistant's message before it, at its own time and in a scope of its dialogue;
all else is as `Memory.local` has it. Every message that tells a value is asked for. Dialogues have the form of
`talk_data.py`. Intervals are Wilson's, 95 %.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from perdure import BenchReport, Memory
from talk_data import read_dialogues

ALL = 1_000_000  # probes at most: each value that was told, and each fact


def measured(dialogues: Path, episodes: str, embedder: str) -> BenchReport:
    """Tell the dialogues to a fresh store, and run the bench on it."""
    with tempfile.TemporaryDirectory() as folder:
        config = {"path": folder, "episodes": episodes, "embedder": {"provider": embedder}}
        with Memory(config) as memory:
            for turns in read_dialogues(dialogues):
                for turn in turns:
                    said = [turn.message] if turn.before is None else [turn.before, turn.message]
                    memory.add(said, user_id=turn.dialogue)
            return memory.bench(probes=ALL)


def lines(episodes: str, report: BenchReport, shown: int) -> list[str]:
    """Return the report of one store as text."""
    found = [f'episodes = "{episodes}": {report.messages} messages, {report.memories} facts, preset {report.preset}']
    for kind, scores in report.kinds.items():
        low, high = scores.interval_at_limit or (0.0, 0.0)
        found.append(
            f"  {kind:8} n {scores.probes:4}  found@1 {scores.found_at_1:.3f}  found@{report.limit} "
            f"{scores.found_at_limit:.3f} [{low:.3f}, {high:.3f}]  MRR {scores.mrr:.3f}"
        )
    told = [miss for miss in report.missed if miss.kind == "told"]
    return [*found, *(f"  missed: {miss.question}, told: {miss.value}" for miss in told[:shown])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dialogues", type=Path)
    parser.add_argument("--episodes", nargs="+", default=["words", "notes"])
    parser.add_argument("--embedder", default="minilm")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="missed values to print")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    reports = {episodes: measured(given.dialogues, episodes, given.embedder) for episodes in given.episodes}
    if given.json:
        print(json.dumps({episodes: report.model_dump() for episodes, report in reports.items()}, indent=2))
        return
    for episodes, report in reports.items():
        print("\n".join(lines(episodes, report, given.show)))


if __name__ == "__main__":
    main()
