"""How well the curator reads, reconciles and recalls, through the library itself.

    python benchmarks/curation.py DIR [--scorer DIR/score.py] [--suffix _dev] [--details]

DIR holds `extraction.jsonl`, `reconcile.jsonl`, `dialogues.jsonl` and `memory_decision.jsonl` (those that are there;
with `--suffix _dev` the files are `extraction_dev.jsonl` and so on), in the formats that the scorer's docstring tells.
Every prediction is made with a fresh user of one embedded memory, as the scorer asks.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

from perdure import Memory
from perdure.pipeline.retrieval.search_gate import should_search

FIRST_SESSION = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
"""When the first session of each dialogue is said to have been; the files give no times."""


def load(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def scorer(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("score", path)
    assert spec is not None and spec.loader is not None, f"{path} is no Python file"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def everything(memory: Memory, user: str) -> list[str]:
    return [item.memory for item in memory.get_all(user_id=user, limit=1000).results]


def predict_extraction(memory: Memory, gold: list[dict[str, Any]]) -> list[list[str]]:
    predictions = []
    for item in gold:
        memory.add(item["messages"], user_id=item["id"])
        predictions.append(everything(memory, item["id"]))
    return predictions


def predict_reconcile(memory: Memory, gold: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    predictions = []
    for item in gold:
        ids: dict[str, str] = {}
        for each in item["existing"]:
            stored = memory.add(each["text"], user_id=item["id"], infer=False)
            ids[stored.results[0].id] = each["id"]
        result = memory.add_facts([item["fact"]], user_id=item["id"])
        events = [
            {"event": event.event, "id": ids.get(event.id, event.id), "data": event.new_memory}
            for event in result.results
        ]
        predictions.append(events or [{"event": "NONE"}])
    return predictions


def predict_dialogues(memory: Memory, gold: list[dict[str, Any]]) -> list[list[list[str]]]:
    predictions = []
    for item in gold:
        for number, session in enumerate(item["sessions"]):
            moment = FIRST_SESSION + timedelta(days=3 * number)
            timed = [
                {**message, "timestamp": (moment + timedelta(minutes=minute)).isoformat()}
                for minute, message in enumerate(session)
            ]
            memory.add(timed, user_id=item["id"])
        predictions.append(
            [
                [
                    found.memory
                    for found in memory.search(
                        probe["query"], user_id=item["id"], limit=5, history=probe.get("history") or None
                    ).results
                ]
                for probe in item["probes"]
            ]
        )
    return predictions


def predict_decision(memory: Memory, gold: list[dict[str, Any]]) -> list[bool]:
    return [
        should_search(item["query"], is_fact=item["is_fact_hint"], requires_tool=item["requires_tool_hint"])
        for item in gold
    ]


TASKS: dict[str, tuple[str, Callable[[Memory, list[dict[str, Any]]], list[Any]]]] = {
    "extraction": ("score_extraction", predict_extraction),
    "reconcile": ("score_reconcile", predict_reconcile),
    "dialogues": ("score_dialogues", predict_dialogues),
    "memory_decision": ("score_decision", predict_decision),
}


def figures(task: str, score: dict[str, Any]) -> str:
    overall = score["overall"]
    if task == "extraction":
        return (
            f"f1_strict {overall['f1_strict']:.3f}  f1_atomic {overall['f1_atomic']:.3f}"
            f"  no-fact clean {score['no_fact_items']['clean']:.3f}  absent {overall['absent_violations']}"
        )
    if task == "reconcile":
        kinds = "  ".join(f"{kind} {part['accuracy']:.2f}" for kind, part in score["by_kind"].items())
        share = overall["collateral"] / overall["items"]
        return f"accuracy {overall['accuracy']:.3f}  collateral {overall['collateral']} ({share:.1%})  {kinds}"
    if task == "dialogues":
        kinds = "  ".join(f"{kind} {part['accuracy']:.2f}" for kind, part in score["by_kind"].items())
        return f"accuracy {overall['accuracy']:.3f}  recall {overall['recall']:.3f}  stale {overall['stale']}  {kinds}"
    return f"accuracy {overall['accuracy']:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scorer", type=Path, help="the scorer's file; by default score.py in DIR")
    parser.add_argument("--suffix", default="")
    parser.add_argument("--details", action="store_true", help="print what was wrong, item by item")
    parser.add_argument("--sample", type=int, default=0, help="print so many stored facts, drawn at random")
    parser.add_argument("--tasks", nargs="+", choices=sorted(TASKS), default=list(TASKS))
    arguments = parser.parse_args()
    module = scorer(arguments.scorer or arguments.folder / "score.py")
    for task in arguments.tasks:
        file = arguments.folder / f"{task}{arguments.suffix}.jsonl"
        if not file.exists():
            continue
        gold = load(file)
        function, predict = TASKS[task]
        with tempfile.TemporaryDirectory() as folder, Memory.local(folder) as memory:
            started = time.perf_counter()
            predictions = predict(memory, gold)
            seconds = time.perf_counter() - started
        score = getattr(module, function)(predictions, gold=gold, details=arguments.details)
        print(f"{task:<16} {len(gold):>4} items  {figures(task, score)}  {seconds:.1f} s", flush=True)
        if arguments.details:
            for detail in score["details"]:
                print("   ", json.dumps(detail, ensure_ascii=False))
        if arguments.sample and task == "extraction":
            facts = [fact for item in predictions for fact in item]
            for fact in random.Random(3).sample(facts, min(arguments.sample, len(facts))):
                print("   ", fact)


if __name__ == "__main__":
    main()
