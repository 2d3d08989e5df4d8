"""What one `add` of two messages costs in model calls and tokens: perdure beside its peers' own packages.

    python benchmarks/model_cost.py [--only perdure,mem0] [--peers DIR] [--rounds 1] [--json FILE]

Each runs in an environment and a process of its own (the peers' are made in DIR on first use; apart from that nothing
leaves the machine), against the same service on 127.0.0.1, which speaks OpenAI's wire format and answers from a script
(`model_cost/server.py`; `model_cost/answers.py` lists its rules). So everybody extracts the same facts, out of the same
two messages, beside the same memories, and only what they send differs.

Input tokens are those of all requests to a language model: roles and texts of the messages, tools and schemas as
compact JSON, and 3 for each message and 3 for each request, as OpenAI's own recipe has it. They are counted with the
tokenizer of every vendor that has published one in a package (`model_cost/count.py`). Embedding requests are counted
apart: perdure makes none, since it embeds on the machine, with minilm. "own ms" is the time of the call less the time
in which the service was busy (best of the rounds), so that it holds perdure's embedding and not the peers'. "kept" are
the memories found afterwards, of those that must be there: it shows that everybody's pipeline ran to its end.

Fails if perdure makes more than 2 calls in any scene, if it sends more than 2,000 tokens by any tokenizer, or if a
memory is lost.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from math import inf
from pathlib import Path
from typing import Any

from model_cost.environments import PEERS, TOKENIZERS, NotInstalledError, default_folder, python_of
from model_cost.scenes import SCENES, Scene
from model_cost.server import Exchange, Server

PARTS = Path(__file__).with_name("model_cost")
OURS = "perdure"
NAMES = (OURS, *(peer.name for peer in PEERS))
MOST_CALLS, MOST_TOKENS = 2, 2_000
"""What an `add` of two messages may cost, all calls together."""
RUN_SECONDS = 300
QUIET = {
    "MEM0_TELEMETRY": "False",
    "GRAPHITI_TELEMETRY_ENABLED": "false",
    "ANONYMIZED_TELEMETRY": "False",
    "LANGSMITH_TRACING": "false",
}
"""What the peers read before they would call home."""


@dataclass(slots=True)
class Row:
    """What one scene cost one of them; `problem` says why there are no figures."""

    name: str
    scene: str
    problem: str = ""
    exchanges: list[Exchange] = field(default_factory=list)
    embedding_calls: int = 0
    embedded_texts: int = 0
    own_seconds: float = inf
    missing: list[str] = field(default_factory=list)
    """What is not among the memories afterwards."""
    tokens: dict[str, int] = field(default_factory=dict)
    """Input tokens by tokenizer."""
    output_tokens: int = 0

    def figures(self) -> dict[str, Any]:
        """For a JSON file."""
        figures = asdict(self)
        del figures["exchanges"]
        return {**figures, "calls": len(self.exchanges)}


def measure(name: str, scene: Scene, server: Server, *, python: Path, cache: Path, rounds: int) -> Row:
    """Run one scene through one of them."""
    row = Row(name, scene.name)
    for _ in range(rounds):
        server.clear()
        with tempfile.TemporaryDirectory() as folder:
            try:
                found = drive(name, scene, server.address, Path(folder), python=python, cache=cache)
            except subprocess.TimeoutExpired:
                return Row(name, scene.name, f"not done after {RUN_SECONDS} s")
            except subprocess.CalledProcessError as error:
                return Row(name, scene.name, (error.stderr.strip().splitlines() or ["failed"])[-1][:300])
        if server.problems:
            return Row(name, scene.name, f"the service could not answer: {server.problems[0]}")
        records = server.records
        row.exchanges = records.exchanges
        row.embedding_calls, row.embedded_texts = records.embedding_calls, len(records.embedded)
        row.own_seconds = min(row.own_seconds, found["seconds"] - records.busy())
        row.missing = [text for text in scene.expected if text not in found["stored"]]
    return row


def drive(name: str, scene: Scene, address: str, folder: Path, *, python: Path, cache: Path) -> Any:
    """The driver's result, from a process that sees no key and no home of the user's."""
    task, result, memory = folder / "task.json", folder / "result.json", folder / "memory"
    memory.mkdir()
    task.write_text(json.dumps({**scene.task(), "address": address, "folder": str(memory)}), encoding="utf-8")
    home = {"HOME": str(folder), "TMPDIR": str(folder), "XDG_CACHE_HOME": str(cache)}
    environment = {**{key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ}, **home, **QUIET}
    command: list[str | Path] = [python, "-P", PARTS / "drive.py", PARTS / "peers" / f"{name}.py", task, result]
    subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=RUN_SECONDS, check=True
    )
    return json.loads(result.read_text(encoding="utf-8"))


def count_tokens(rows: list[Row], python: Path) -> None:
    """Fill in the tokens of every row, by every tokenizer; the output's by the first."""
    texts = list({text: None for row in rows for each in row.exchanges for text in (*each.asked, *each.said)})
    command: list[str | Path] = [python, "-P", PARTS / "count.py"]
    done = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, check=True)
    by_vendor = {vendor: dict(zip(texts, counts, strict=True)) for vendor, counts in json.loads(done.stdout).items()}
    for row in rows:
        for vendor, tokens in by_vendor.items():
            asked = sum(tokens[text] for each in row.exchanges for text in each.asked)
            row.tokens[vendor] = asked + sum(3 * each.messages + 3 for each in row.exchanges)
        first = next(iter(by_vendor.values()))
        row.output_tokens = sum(first[text] for each in row.exchanges for text in each.said)


def show(rows: list[Row], scene: Scene, vendors: list[str]) -> None:
    """Print a scene's table; the ratios are to perdure, by the first tokenizer."""
    own = next((row for row in rows if row.name == OURS and row.scene == scene.name and not row.problem), None)
    heads = "".join(f"{vendor:>12}" for vendor in vendors)
    print(f"\n{scene.name}\n{'':<11}{'calls':>6}{heads}{'ratio':>8}{'output':>8}{'embed':>7}{'own ms':>8}  kept")
    for row in rows:
        if row.scene != scene.name:
            continue
        if row.problem:
            print(f"{row.name:<11}  not measured: {row.problem}")
            continue
        counts = "".join(f"{row.tokens[vendor]:>12,}" for vendor in vendors)
        ratio = f"{row.tokens[vendors[0]] / own.tokens[vendors[0]]:.2f}" if own else ""
        kept = f"{len(scene.expected) - len(row.missing)} of {len(scene.expected)}"
        print(
            f"{row.name:<11}{len(row.exchanges):>6}{counts}{ratio:>8}{row.output_tokens:>8,}"
            f"{row.embedding_calls:>7}{1000 * row.own_seconds:>8.0f}  {kept}"
        )


def failures(rows: list[Row]) -> list[str]:
    """What perdure promises and did not keep."""
    found = []
    for row in rows:
        if row.name != OURS:
            continue
        if row.problem:
            found.append(f"{row.scene}: {row.problem}")
        if len(row.exchanges) > MOST_CALLS:
            found.append(f"{row.scene}: {len(row.exchanges)} calls")
        found += [f"{row.scene}: {n:,} input tokens by {vendor}" for vendor, n in row.tokens.items() if n > MOST_TOKENS]
        found += [f"{row.scene}: lost {text!r}" for text in row.missing]
    return found


def main() -> int:
    """Run as the module's text says; 1 if perdure does not keep its promise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(NAMES), help=f"of {', '.join(NAMES)}")
    parser.add_argument("--peers", type=Path, default=default_folder(), help="folder of the peers' environments")
    parser.add_argument("--rounds", type=int, default=1, help="runs of each, the fastest of which counts")
    parser.add_argument("--json", type=Path, help="write all figures to this file as well")
    arguments = parser.parse_args()
    chosen = arguments.only.split(",")
    if unknown := set(chosen) - set(NAMES):
        parser.error(f"--only knows {', '.join(NAMES)}, not {', '.join(sorted(unknown))}")
    folder = arguments.peers.expanduser().resolve()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        tokenizers = python_of(TOKENIZERS, folder)
    except NotInstalledError as error:
        print(f"no tokenizers: {error}", file=sys.stderr)
        return 1
    environments = {peer.name: peer for peer in PEERS}
    rows: list[Row] = []
    with Server() as server:
        for name in chosen:
            try:
                python = Path(sys.executable) if name == OURS else python_of(environments[name], folder)
            except NotInstalledError as error:
                rows += [Row(name, scene.name, str(error)) for scene in SCENES]
                continue
            print(f"measuring {name}", file=sys.stderr)
            rows += [
                measure(name, scene, server, python=python, cache=folder / "cache", rounds=arguments.rounds)
                for scene in SCENES
            ]
    count_tokens([row for row in rows if not row.problem], tokenizers)
    vendors = next((list(row.tokens) for row in rows if row.tokens), [])
    versions = "  ".join(" ".join(peer.installs[0]) for peer in PEERS if peer.name in chosen)
    print(f"peers: {versions or 'none'}\ntokenizers: {', '.join(vendors)} (ratio and output by the first)")
    for scene in SCENES:
        show(rows, scene, vendors)
    if arguments.json:
        arguments.json.write_text(json.dumps([row.figures() for row in rows], indent=1), encoding="utf-8")
    broken = failures(rows)
    print(*(f"\nnot kept: {each}" for each in broken), sep="")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
