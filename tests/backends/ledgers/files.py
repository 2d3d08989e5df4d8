"""Ledger files and their rows, for the tests of what is SQLite's own."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from perdure.backends.ledgers.sqlite import SqliteLedger
from perdure.domain.clock import system_clock

SPEC_TABLE = """
CREATE TABLE IF NOT EXISTS memory_history (
id TEXT PRIMARY KEY,
memory_id TEXT NOT NULL,
event TEXT NOT NULL,
old_value TEXT,
new_value TEXT,
timestamp TEXT NOT NULL,
is_deleted INTEGER DEFAULT 0,
user_id TEXT,
agent_id TEXT,
run_id TEXT
);
CREATE INDEX IF NOT EXISTS idx_history_memory_id ON memory_history(memory_id);
CREATE INDEX IF NOT EXISTS idx_history_timestamp ON memory_history(timestamp);
"""
"""Spec 000 §5.1, to the letter."""


def make(path: Path, **settings: object) -> SqliteLedger:
    return SqliteLedger(SqliteLedger.Settings(path=path, **settings), system_clock)


def rows(path: Path, query: str) -> list[tuple]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()
