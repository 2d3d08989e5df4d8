"""What it costs to start: the import, the command line, and the first search of a process.

    python benchmarks/opening.py [--rounds 7] [--memories 200] [--check]

Every figure is processor time of whole new processes, taken in turns so that a busy machine is busy for all of them;
the middle of the rounds is printed. The compiled files (`.pyc`) are present: a first round, which is not counted,
writes them into a folder of their own. The first search is compared with its parts alone: NumPy, ONNX Runtime, the
tokenizer and the session, imported and run once on the same sentence without perdure. `--check` ends with status 1
where a limit is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bare_minilm import RUN
from perdure import Memory

QUESTION = "where does Ana live now?"

PARTS = f"""
import sys
import numpy
import onnxruntime
import tokenizers
graph, tokenizer_file, text = sys.argv[1:]
{RUN}"""

SEARCH = """
import sys
from perdure import Memory
with Memory({"path": sys.argv[1], "embedder": {"provider": sys.argv[2], "config": {}}}) as memory:
    found = memory.search(sys.argv[3], user_id="ana", limit=10)
assert found.results, "nothing was found"
"""


def processor_seconds(arguments: list[str], environment: dict[str, str]) -> float:
    """Processor time of one new Python process, all its threads included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run([sys.executable, *arguments], env=environment, check=False, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if result.returncode:
        raise SystemExit(f"{arguments[:3]} failed: {result.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def fill(folder: Path, memories: int, embedder: str) -> None:
    places = ("Oslo", "Lisbon", "Porto", "Bergen", "Turin", "Graz", "Lyon", "Ghent")
    with Memory({"path": str(folder), "embedder": {"provider": embedder}}) as memory:
        texts = [
            f"Ana lived in {places[n % 8]} for {n} weeks and worked at harbour number {n}" for n in range(memories)
        ]
        memory.add([{"role": "user", "content": text} for text in texts], user_id="ana", infer=False)


def graph_and_tokenizer() -> tuple[str, str]:
    from perdure.backends.embedders.minilm import MiniLMEmbedder, find_model, graph_file

    embedder = MiniLMEmbedder(MiniLMEmbedder.Settings())
    cache = embedder._cache_dir
    files = find_model(None, cache)
    if files is None or cache is None:
        raise SystemExit("there are no weights of MiniLM: perdure init --download")
    return str(files.weights if files.is_graph else graph_file(files, cache)), str(files.tokenizer)


def jobs(folder: Path, other: Path) -> dict[str, list[str]]:
    cli = ["-m", "perdure.frontends.cli.main"]
    graph, tokenizer = graph_and_tokenizer()
    return {
        "python": ["-c", ""],
        "numpy": ["-c", "import numpy"],
        "from perdure import Memory": ["-c", "from perdure import Memory"],
        "typer": ["-c", "import typer"],
        "perdure --help": [*cli, "--help"],
        "perdure list": [*cli, "list", "--user-id", "ana", "--limit", "10", "--path", str(folder)],
        "parts of a search": ["-c", PARTS, graph, tokenizer, QUESTION],
        "open and search": ["-c", SEARCH, str(folder), "minilm", QUESTION],
        "open and search, hashed": ["-c", SEARCH, str(other), "hashed", QUESTION],
    }


def measure(rounds: int, memories: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(root / "compiled")}
        for name in ("PYTHONDONTWRITEBYTECODE", "OPENAI_API_KEY"):
            environment.pop(name, None)
        fill(root / "minilm", memories, "minilm")
        fill(root / "hashed", memories, "hashed")
        (root / "minilm" / "perdure.toml").write_text("", encoding="utf-8")
        taken: dict[str, list[float]] = {}
        for number in range(rounds + 1):
            for name, arguments in jobs(root / "minilm", root / "hashed").items():
                seconds = processor_seconds(arguments, environment)
                if number:
                    taken.setdefault(name, []).append(seconds)
    return {name: statistics.median(values) for name, values in taken.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--memories", type=int, default=200)
    parser.add_argument("--check", action="store_true", help="Status 1 where a limit is missed.")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    seconds = measure(options.rounds, options.memories)
    ratios = {
        "from perdure import Memory / import numpy": seconds["from perdure import Memory"] / seconds["numpy"],
        "perdure --help / import typer": seconds["perdure --help"] / seconds["typer"],
        "perdure list / import numpy": seconds["perdure list"] / seconds["numpy"],
        "open and search / its parts": seconds["open and search"] / seconds["parts of a search"],
    }
    if options.json:
        print(json.dumps({"milliseconds": {name: value * 1000 for name, value in seconds.items()}, "ratios": ratios}))
    else:
        print("processor time of a new process, milliseconds")
        for name, value in seconds.items():
            print(f"  {name:42} {value * 1000:6.0f}")
        print("ratios")
        for name, value in ratios.items():
            print(f"  {name:42} {value:6.2f}")
    return int(options.check and ratios["open and search / its parts"] > 2)


if __name__ == "__main__":
    sys.exit(main())
