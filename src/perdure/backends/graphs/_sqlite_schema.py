"""The tables of the SQLite graph.

mentions    a memory, as one reader read it, names an entity between two moments; type '' comes of a relation alone
relations   it states that one entity stands to another
words       how the words of an entity's name begin, for names that are alike
"""

from __future__ import annotations

from collections.abc import Iterator

from perdure.backends.graphs._rows import MENTION, RELATION
from perdure.backends.sqlite_file import Layout
from perdure.domain.scope import SCOPE_FIELDS

STATED = ("memory_id", "reader", *SCOPE_FIELDS, "told_at", "untold_at")
"""Columns that both tables have: whose statement it is, behind which walls, from when to when."""

_TABLES = (
    f"CREATE TABLE mentions (id INTEGER PRIMARY KEY, entity_key NOT NULL, {', '.join((*STATED, *MENTION))})",
    "CREATE TABLE relations (id INTEGER PRIMARY KEY, source_key NOT NULL, target_key NOT NULL, "
    f"{', '.join((*STATED, *RELATION))})",
    "CREATE TABLE words (start TEXT, entity_key TEXT, PRIMARY KEY (start, entity_key)) WITHOUT ROWID",
    "CREATE INDEX mentions_memory ON mentions (memory_id, reader)",
    "CREATE INDEX relations_memory ON relations (memory_id, reader)",
)

_ENDS = (("mentions", "entity_key"), ("relations", "source_key"), ("relations", "target_key"))


def _end_indexes() -> Iterator[str]:
    for table, key in _ENDS:
        yield f"CREATE INDEX {table}_{key} ON {table} ({key})"
        for axis in SCOPE_FIELDS:
            yield f"CREATE INDEX {table}_{axis}_{key} ON {table} ({axis}, {key}) WHERE {axis} IS NOT NULL"


LAYOUT = Layout(
    application_id=0x50455247,  # `PERG`
    version=1,
    tables=frozenset({"mentions", "relations"}),
    statements=(*_TABLES, *_end_indexes()),
)
"""What an empty file is made with."""
