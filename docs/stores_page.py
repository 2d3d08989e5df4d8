"""docs/stores.md: every vector store, from its class, its way of being tested, and the last test run.

The run writes what it saw where PERDURE_STORES_REPORT names a file:

    PERDURE_STORES_REPORT=docs/stores.json .venv/bin/python -m pytest tests/contracts -n auto --dist loadgroup
    .venv/bin/python docs/generate.py
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent))

from tests.contracts.stores import Provider, all_providers  # noqa: E402

from perdure.backends import registry  # noqa: E402 - the tests stand beside this folder
from perdure.backends.vector_stores.common.document_store import DocumentStore  # noqa: E402
from perdure.backends.vector_stores.common.filter_clauses import cannot_write  # noqa: E402

INTRODUCTION = """\
Every store passes the same contract suite and gives the same answers ([how](adr/0011-one-base-for-every-engine.md)).
Filters are exact on all of them: perdure evaluates what an engine cannot express, and no result is lost. Every store
honours `expires_at`. Keyword search is the engine's own where the table says so; otherwise perdure computes it over the
rows that contain a word of the query."""
HEAD = ["store", "tested against", "contract tests", "keyword search", "pushed down besides eq, in, ne, nin", "batches"]


def stores_page(table: Callable[[list[str], Iterator[tuple[str, ...]]], str]) -> str:
    report = json.loads((FOLDER / "stores.json").read_text(encoding="utf-8"))
    known = all_providers()
    parts = [
        "# Stores",
        "<!-- made by docs/generate.py from the code and docs/stores.json: do not edit -->",
        INTRODUCTION,
        table(
            [
                "store",
                "tested against",
                "contract tests",
                "keyword search",
                "pushed down besides eq, in, ne, nin",
                "batches",
            ],
            (row(id, known[id], report["stores"].get(id, {})) for id in sorted(known)),
        ),
        f"The tests were run on {report['date']}: tests are skipped by flags of the provider's fixture.",
        "## Scale",
        "\n".join(f"- **{link(name)}** {scale(name)}" for name in registry.providers("vector_stores")),
    ]
    return "\n\n".join(parts) + "\n"


def row(id: str, provider: Provider, seen: dict[str, Any]) -> tuple[str, ...]:
    store = registry.load("vector_stores", provider.name)
    told = f"{seen.get('passed', 0)} passed, {seen.get('skipped', 0)} skipped" if seen else "not run"
    told += f" ({seen['date']})" if "date" in seen else ""  # one store that was run later than the others
    batches = "all or nothing" if provider.atomic else "completed by the journal"
    return (link(provider.name, id), provider.engine, told, keyword(store), pushed(store), batches)


def link(name: str, text: str | None = None) -> str:
    page = FOLDER / "providers" / f"{name}.md"
    return f"[{text or name}](providers/{name}.md)" if page.exists() else f"`{text or name}`"


def keyword(store: type[Any]) -> str:
    if not issubclass(store, DocumentStore):
        return {"sqlite": "FTS5", "memory": "by perdure"}.get(store.name, "the inner store's")
    return "the engine's" if store.ranks_words else "by perdure, on word tokens"


def pushed(store: type[Any]) -> str:
    if not issubclass(store, DocumentStore):
        return {"sqlite": "everything", "memory": "-"}.get(store.name, "as the inner store")
    found = ["ranges"] if store.grammar.between is not cannot_write else []
    found += ["contains"] if store.grammar.holds is not cannot_write else []
    return ", ".join(found) or "-"


def scale(name: str) -> str:
    """The first paragraph of the provider's page under a heading that says Scale, else of its class."""
    page = FOLDER / "providers" / f"{name}.md"
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    found = re.search(r"^## Scale[^\n]*\n+(.+?)(?:\n\n|\n#|\Z)", text, re.DOTALL | re.MULTILINE)
    said = found[1] if found else (registry.load("vector_stores", name).__doc__ or "").strip().split("\n")[0]
    return " ".join(line.removeprefix("- ").strip() for line in said.splitlines())
