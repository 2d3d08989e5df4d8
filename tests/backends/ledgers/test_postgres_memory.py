"""Whole engines of several processes over one PostgreSQL ledger, and how a configuration chooses it."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure import ConfigError, Memory
from perdure.backends.ledgers.postgres.store import PostgresLedger
from perdure.backends.ledgers.sqlite import SqliteLedger
from perdure.engine.build import build
from perdure.engine.config.config import read_config
from tests.contracts.ledgers.ledger_postgres import Server, postgres_server  # noqa: F401 - a fixture

ANA = {"user_id": "ana"}
ROOT = Path(__file__).parents[3]


@pytest.fixture
def config(postgres_server: Server, tmp_path: Path) -> dict[str, Any]:  # noqa: F811
    return {
        "path": str(tmp_path / "memory"),
        "embedder": {"provider": "hashed"},
        "history": {
            "provider": "postgres",
            "config": {"url": postgres_server.url(), "schema_name": f"m_{abs(hash(tmp_path))}"},
        },
    }


def start(config: dict[str, Any], code: str) -> subprocess.Popen[str]:
    head = (
        "import json, os, signal, sys; from perdure import Memory\n"
        f"memory = Memory(json.loads({json.dumps(config)!r}))\n"
    )
    run = [sys.executable, "-c", head + code]
    return subprocess.Popen(
        run, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )


def ledger_of(config: dict[str, Any]) -> Any:
    return build(read_config(config)).kernel._given_ledger


# ---------------------------------------------------------------------- two processes
def test_two_processes_write_into_one_memory_at_once(config: dict[str, Any]) -> None:
    code = (
        "memory.add('other: ready', infer=False, user_id='ana'); print('ready', flush=True); sys.stdin.readline()\n"
        "for number in range(20): memory.add(f'other {number}', infer=False, user_id='ana')\n"
        "memory.close()"
    )
    other = start(config, code)
    with Memory(config) as memory:
        assert other.stdout.readline() == "ready\n", other.stderr.read()
        other.stdin.write("go\n")
        other.stdin.flush()
        for number in range(20):
            memory.add(f"mine {number}", infer=False, **ANA)
        _, errors = other.communicate(timeout=60)
        assert other.returncode == 0, errors
        items = memory.get_all(**ANA).results
        said = {item.memory for item in items}
        assert said == {"other: ready", *(f"{who} {number}" for who in ("mine", "other") for number in range(20))}
        by_the_other = next(item for item in items if item.memory == "other 7")
        memory.update(by_the_other.id, "mine now")
        assert [record.event for record in memory.history(by_the_other.id)] == ["ADD", "UPDATE"]


def test_what_a_killed_process_had_acknowledged_is_applied_by_another(config: dict[str, Any]) -> None:
    code = (
        "memory.add('kept', infer=False, user_id='ana')\n"
        "from perdure.backends.vector_stores.sqlite.store import SqliteVectorStore as Store\n"
        "async def die(*_): os.kill(os.getpid(), signal.SIGKILL)\n"
        "Store.apply = die; memory.add('acknowledged', infer=False, user_id='ana')"
    )
    with Memory(config) as memory:
        memory.add("mine", infer=False, **ANA)
        other = start(config, code)
        _, errors = other.communicate(timeout=60)
        assert other.returncode == -9, errors
        assert {item.memory for item in memory.get_all(**ANA).results} == {"mine", "kept"}
        # The next writer finds the journal's entry, and its dead owner.
        memory.add("later", infer=False, **ANA)
        items = memory.get_all(**ANA).results
        assert {item.memory for item in items} == {"mine", "kept", "acknowledged", "later"}
        for item in items:
            assert [record.event for record in memory.history(item.id)] == ["ADD"]
            memory.delete(item.id)


@pytest.mark.covers("U4")
def test_what_is_forgotten_is_gone_from_the_ledger(config: dict[str, Any], postgres_server: Server) -> None:  # noqa: F811
    schema = config["history"]["config"]["schema_name"]
    with Memory(config) as memory:
        memory.add("My locker code is 90210xyz", infer=False, **ANA)
        notes = {place.place: place.note for place in memory.forget(**ANA).places if place.status == "erased"}
        assert "write-ahead log" in notes["history"] and notes["store"] == ""
        assert memory.get_all(**ANA).results == []
        for table in ("memory_history", "journal", "episodes", "responses", "idempotency"):
            rows = postgres_server.run(f"SELECT t::text FROM {schema}.{table} t")
            assert not any("90210xyz" in row for (row,) in rows), table


# ---------------------------------------------------------------------- choosing it
def test_a_variable_alone_never_moves_the_ledger(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    url = config["history"]["config"]["url"]
    monkeypatch.setenv("DATABASE_URL", url)
    plain = {key: value for key, value in config.items() if key != "history"}
    assert isinstance(ledger_of(plain), SqliteLedger)
    assert ledger_of(plain).identity == f"sqlite:{tmp_path / 'memory' / 'history.db'}"
    named = ledger_of({**plain, "history": {"provider": "postgres"}})
    assert isinstance(named, PostgresLedger)
    assert named.identity.endswith("/postgres/perdure")
    monkeypatch.setenv("PERDURE_HISTORY__PROVIDER", "postgres")
    monkeypatch.setenv("PERDURE_HISTORY__CONFIG__SCHEMA_NAME", "elsewhere")
    assert ledger_of(plain).identity.endswith("/postgres/elsewhere")


def test_settings_that_name_two_places_are_refused(config: dict[str, Any], tmp_path: Path) -> None:
    two = {**config, "history": {**config["history"], "db_path": str(tmp_path / "h.db")}}
    with pytest.raises(ConfigError, match=r"history\.db_path"):
        Memory(two)
    with pytest.raises(ConfigError, match=r"history\.db_path"):
        Memory({"history": {"db_path": "a.db", "config": {"path": "b.db"}}})
    with pytest.raises(ConfigError, match=r"history\.provider.*did you mean 'postgres'"):
        Memory({"history": {"provider": "postgre"}})
    assert (
        ledger_of({"history": {"config": {"path": str(tmp_path / "b.db")}}}).identity == f"sqlite:{tmp_path / 'b.db'}"
    )


def test_a_ledger_out_of_reach_is_a_warning_without_the_password(
    config: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    config["history"]["config"] = {"url": "postgresql://ana:open-sesame@127.0.0.1:1/x"}
    with caplog.at_level(logging.DEBUG), Memory(config) as memory:
        memory.add("still remembered", infer=False, **ANA)
        assert [item.memory for item in memory.get_all(**ANA).results] == ["still remembered"]
    assert "no history" in caplog.text
    assert "cannot be reached" in caplog.text
    assert "sesame" not in caplog.text
