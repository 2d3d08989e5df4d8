"""The SQLite ledger among processes: imports, first opening, fork, owners alive and dead."""

from __future__ import annotations

import gc
import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.backends.ledgers.sqlite import FileOwners
from tests.backends.ledgers.files import make, rows
from tests.contracts.ledgers.ledger_worker import STORE, add, awaited, entry


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "some" / "folder" / "history.db"


ROOT = Path(__file__).parents[3]


def run_python(code: str) -> str:
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_sqlalchemy_and_the_migrations_are_not_imported_where_the_ledger_is_up_to_date(path: Path) -> None:
    code = (
        "import asyncio, sys; from pathlib import Path; from perdure.backends.ledgers.sqlite import SqliteLedger;"
        "print('sqlalchemy' in sys.modules, end=' ');"
        f"ledger = SqliteLedger(SqliteLedger.Settings(path=Path({str(path)!r})));"
        "asyncio.run(ledger.open());"
        "print('sqlalchemy' in sys.modules, 'perdure.backends.ledgers._migrations' in sys.modules);"
        "asyncio.run(ledger.close())"
    )
    assert run_python(code) == "False True False"  # made anew
    assert run_python(code) == "False False False"
    behind = sqlite3.connect(path)
    for (name,) in behind.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        behind.execute(f"DELETE FROM {name}" if name == "alembic_version" else f"DROP TABLE {name}")
    behind.commit()
    behind.close()
    assert run_python(code) == "False True True"
    assert run_python(code) == "False False False"


def test_many_processes_may_open_a_new_ledger_at_once(path: Path) -> None:
    code = (
        "import asyncio; from pathlib import Path; from tests.contracts.ledgers.ledger_worker import *;"
        f"place = Place('sqlite', Path({str(path.parent)!r}));\n"
        "async def main():\n"
        "    async with place.opened() as ledger: await settle(ledger, add())\n"
        "asyncio.run(main())"
    )
    run = [sys.executable, "-c", code]
    workers = [subprocess.Popen(run, stderr=subprocess.PIPE, text=True, cwd=ROOT) for _ in range(6)]
    for worker in workers:
        _, errors = worker.communicate(timeout=120)
        assert (worker.returncode, errors) == (0, "")
    assert rows(path, "SELECT count(*), max(seq) FROM memory_history") == [(6, 6)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_leaves_the_ledger_to_its_parent(path: Path) -> None:
    code = (
        "import asyncio, os, warnings; from pathlib import Path; from tests.contracts.ledgers.ledger_worker import *;"
        "from perdure.domain.errors import LedgerError; warnings.simplefilter('ignore');\n"
        f"place = Place('sqlite', Path({str(path.parent)!r})); ledger = place.handle()\n"
        "runner = asyncio.Runner(); runner.run(ledger.open())\n"
        "lock = ledger.lock(USER); runner.run(lock.__aenter__())\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    try: asyncio.new_event_loop().run_until_complete(ledger.history('x'))\n"
        "    except LedgerError as error: print(error, flush=True)\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0); other = place.handle(); runner.run(other.open())\n"
        "print(runner.run(other.stats())['locks']); runner.run(lock.__aexit__(None, None, None))\n"
        "runner.run(settle(ledger, add())); runner.run(ledger.close()); print(runner.run(other.stats())['history'])\n"
        "runner.run(other.close())"
    )
    lines = run_python(code).split("\n")
    assert re.fullmatch(r"the ledger sqlite:.*history\.db is not open", lines[0])
    assert lines[1:] == ["1", "1"]


@awaited
async def test_a_ledger_that_was_dropped_unclosed_is_dead(path: Path) -> None:
    dropped = make(path)
    await dropped.open()
    await dropped.write([entry(add(), "b")])
    dropped._database.close()  # the file; the owner is left to the garbage collector
    owner = dropped.owner
    del dropped
    gc.collect()
    ledger = make(path)
    await ledger.open()
    assert not ledger._database.owners.alive(owner)
    assert len(await ledger.pending(STORE)) == 1
    await ledger.close()


def test_owners_know_the_living_from_the_dead(tmp_path: Path) -> None:
    one, two, asking = (FileOwners(tmp_path / "owners") for _ in range(3))
    first, second = one.claim(), two.claim()
    (tmp_path / "owners" / "not-an-owner").write_text("")
    assert first != second
    assert asking.alive(first)
    assert one.alive(first)
    assert asking.intact()
    one.release()
    one.release()
    asking.sweep()
    assert not asking.alive(first)
    assert asking.alive(second)
    assert sorted(file.name for file in (tmp_path / "owners").iterdir()) == sorted([second, "not-an-owner"])
    (tmp_path / "owners" / second).unlink()
    assert not two.intact()
    assert not asking.alive(second)
    two.release()
