"""What `forget(query=...)` takes, against what a person expects it to take.

    python benchmarks/forget.py [tune held] [--embedder minilm] [--threshold 0.75] [--show]

`data/forget/tune.txt` and `held.txt` hold three small stores of everyday life each, with queries and the memories that
must go with each, and those that may. Only `tune.txt` was looked at while the rule was chosen; `held.txt` was read once
afterwards, which mended one mistake (an English query taken for French). A memory that goes with another for its
message or its older values does not count here: each is stored by itself.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from perdure import Memory

DATA = Path(__file__).parent / "data" / "forget"


@dataclass(slots=True)
class Store:
    """Memories by number, and each query with what must go and what may."""

    name: str
    memories: dict[int, str] = field(default_factory=dict)
    queries: list[tuple[str, set[int], set[int]]] = field(default_factory=list)


def read(path: Path) -> Iterator[Store]:
    """The stores of a file."""
    for block in path.read_text().split("store: ")[1:]:
        name, *lines = block.splitlines()
        store = Store(name)
        for line in lines:
            head, _, rest = line.partition(" ")
            if head.isdigit():
                store.memories[int(head)] = rest
            elif head == "query:":
                asked = rest
            elif head == "goes:":
                must, _, may = rest.partition("~")
                store.queries.append((asked, set(map(int, must.split())), set(map(int, may.split()))))
        yield store


def measure(path: Path, embedder: str, threshold: float, *, show: bool) -> None:
    """Print precision and recall over all memories of a file's queries, and how many queries take exactly theirs."""
    right = taken = wanted = exact = asked = 0
    for store in read(path):
        with (
            tempfile.TemporaryDirectory() as folder,
            Memory({"path": folder, "embedder": {"provider": embedder}}) as memory,
        ):
            said = [{"role": "user", "content": text} for text in store.memories.values()]
            added = memory.add(said, user_id="u", infer=False).results
            number = {item.id: place for item, place in zip(added, store.memories, strict=True)}
            for query, must, may in store.queries:
                report = memory.forget(query=query, user_id="u", threshold=threshold, dry_run=True)
                gone = {number[item.id] for item in report.results if item.id in number}
                right += len(gone & must)
                taken += len(gone - (may - must))
                wanted += len(must)
                asked += 1
                exact += must <= gone <= must | may
                if show and not must <= gone <= must | may:
                    print(f"{store.name}: {query!r}")
                    for place in sorted(must - gone):
                        print(f"    left  {store.memories[place]}")
                    for place in sorted(gone - must - may):
                        print(f"    taken {store.memories[place]}")
    print(
        f"{path.stem}: {asked} queries, {exact} exact; precision {right / max(taken, 1):.3f}, "
        f"recall {right / max(wanted, 1):.3f} ({taken} taken, {wanted} to go)"
    )


def main() -> None:
    """Measure the named files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=["tune", "held"])
    parser.add_argument("--embedder", default="minilm")
    parser.add_argument("--threshold", type=float, default=0.75)
    parser.add_argument("--show", action="store_true")
    told = parser.parse_args()
    for name in told.names:
        measure(DATA / f"{name}.txt", told.embedder, told.threshold, show=told.show)


if __name__ == "__main__":
    main()
