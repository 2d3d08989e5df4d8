"""What every test stands on: a clean environment, a folder of its own, and memories that are closed again."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import certifi
import pytest
import sqlalchemy as sa
from _pytest.tmpdir import tmppath_result_key
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadGroupScheduling

from perdure import Memory
from perdure.backends.embedders.minilm import MiniLMEmbedder
from perdure.backends.ledgers.sql import tables
from tests.covers import (  # noqa: F401 - hooks of pytest
    pytest_addoption,
    pytest_collection_finish,
    pytest_terminal_summary,
    pytest_testnodedown,
)
from tests.covers import pytest_sessionfinish as hand_over_codes
from tests.scheduling import GroupScheduling

MEMORY = Path("/dev/shm")
"""Where the files of tests lie if it has room: on a disk, half of a test's time is waiting for syncs."""
ROOM = 4 << 30
"""Bytes that a whole run surely has enough of, its servers' data included."""


def _keep_files_in_memory() -> None:
    """Make temporary folders, also those of programs that tests start, in memory, unless TMPDIR names a place."""
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK):
        return
    has = os.statvfs(MEMORY)
    if has.f_bavail * has.f_frsize >= ROOM and not has.f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)


_keep_files_in_memory()  # before pytest makes its own folder, and before a worker is started

# A machine that is busy makes no test fail: what is asserted is behaviour, never seconds.
settings.register_profile("perdure", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=40)
settings.register_profile("thorough", settings.get_profile("perdure"), max_examples=1_000)  # `make properties`
settings.load_profile("perdure")

PROVIDERS_VARIABLES = (
    *("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_VERSION", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT"),
    *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "GOOGLE_API_KEY", "GEMINI_API_KEY"),
    *("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "AZURE_OPENAI_AD_TOKEN", "GOOGLE_GENAI_USE_VERTEXAI"),
    *("OLLAMA_HOST", "OLLAMA_API_KEY", "HF_TOKEN", "HUGGINGFACE_API_KEY", "HUGGING_FACE_HUB_TOKEN", "DATABASE_URL"),
    *("COHERE_API_KEY", "CO_API_KEY", "JINA_API_KEY", "VOYAGE_API_KEY"),
    *("NEO4J_URL", "NEO4J_USER", "NEO4J_PASSWORD"),
    *("QDRANT_HOST", "QDRANT_PORT", "QDRANT_API_KEY", "CHROMA_HOST", "CHROMA_PORT", "REDIS_URL"),
    *(
        "PINECONE_API_KEY",
        "PINECONE_CONTROLLER_HOST",
        "WEAVIATE_URL",
        "WEAVIATE_API_KEY",
        "AZURE_SEARCH_ENDPOINT",
        "AZURE_SEARCH_API_KEY",
    ),
)
"""What providers read where their settings leave something out."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep Python's collector of garbage away from what lives as long as the run does.

    Of 27 s of a worker's collecting, 12 went to looking again and again at tests that were collected, and every full
    collection afterwards looked at 18,000 of them.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One worker more than there are cores: a fifth of the time of two was waiting for servers and processes."""
    return (os.cpu_count() or 1) + 1


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadGroupScheduling | None:
    """xdist's own scheduler for all but the way in which `make test` runs."""
    return GroupScheduling(config, log) if config.getvalue("dist") == "loadgroup" else None


@pytest.fixture(scope="session")
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for the whole run: the model's graph is built once, not for every test, nor for every worker."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """New folders for the tests of one worker. pytest's own `mktemp` lists all earlier folders to number the next."""
    parent = tmp_path_factory.mktemp("tests")

    def new_folders() -> Iterator[Path]:
        for number in count():
            folder = parent / f"{number}"
            folder.mkdir()
            yield folder

    return new_folders()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, folders: Iterator[Path]) -> Iterator[Path]:
    """A folder of the test's own, which is removed once it has passed."""
    folder = next(folders)
    yield folder
    if request.node.stash.get(tmppath_result_key, {}).get("call"):
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def one_authority(folders: Iterator[Path]) -> Path:
    """A file of one certificate: clients of loopback services trust nobody, and read 140 authorities for nothing."""
    whole = Path(certifi.where()).read_text("utf-8")
    end = "-----END CERTIFICATE-----"
    file = next(folders) / "authority.pem"
    file.write_text(whole[: whole.index(end) + len(end)] + "\n", "utf-8")
    return file


@pytest.fixture(autouse=True)
def clean_environment(
    monkeypatch: pytest.MonkeyPatch, folders: Iterator[Path], cache_folder: Path, one_authority: Path
) -> None:
    """No variable of the developer's own reaches a test, and nothing is written to their home."""
    for name in list(os.environ):
        if name.startswith("PERDURE_") and name != "PERDURE_MINILM_REFERENCE":
            monkeypatch.delenv(name)
    for name in PROVIDERS_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(next(folders)))
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_folder))
    # Programs that tests start are compiled once a run, outside of the checkout, whatever the developer's own habit.
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(cache_folder / "bytecode"))
    monkeypatch.setenv("SSL_CERT_FILE", str(one_authority))


@pytest.fixture(autouse=True, scope="session")
def tables_compiled_once() -> Iterator[None]:
    """A new ledger gets the tables that the source makes; their SQL is written once, not by each of 10,000 tests."""
    statements: dict[str, list[str]] = {}

    def compiled(dialect: sa.Dialect) -> list[str]:
        found: list[str] = []
        listener = sa.create_mock_engine(
            f"{dialect.name}://", lambda statement, *_: found.append(str(statement.compile(dialect=dialect)))
        )
        create_all(listener, checkfirst=False)
        return found

    def create_compiled(connection: sa.Connection, *, checkfirst: bool) -> None:
        assert not checkfirst
        name = connection.dialect.name
        if name not in statements:
            statements[name] = compiled(connection.dialect)
        for statement in statements[name]:
            connection.exec_driver_sql(statement)

    create_all = tables.metadata.create_all
    tables.metadata.create_all = create_compiled  # type: ignore[method-assign, assignment]  # takes no tables
    yield
    del tables.metadata.create_all


@pytest.fixture(scope="session")
def loaded_model() -> MiniLMEmbedder:
    """Keeps the model loaded between tests: memories of one process share it while one of them holds it."""
    embedder = MiniLMEmbedder(MiniLMEmbedder.Settings())
    asyncio.run(embedder.embed("load now"))
    return embedder


Open = Callable[..., Memory]


@pytest.fixture
def open_memory(tmp_path: Path) -> Iterator[Open]:
    """Opens memories in the test's folder; each keyword is a key of the configuration."""
    opened: list[Memory] = []

    def open_one(**config: Any) -> Memory:
        config.setdefault("path", str(tmp_path / "memory"))
        memory = Memory(config)
        opened.append(memory)
        return memory

    yield open_one
    for memory in opened:
        memory.close()


@pytest.fixture(params=["sqlite", "memory"])
def memory(request: pytest.FixtureRequest, open_memory: Open, loaded_model: MiniLMEmbedder) -> Memory:
    """A memory with the rules curator and `minilm`, on each embedded store."""
    return open_memory(vector_store={"provider": request.param})


@pytest.fixture
def quick(open_memory: Open) -> Memory:
    """A memory with the hashed embedder: for tests in which meaning plays no part."""
    return open_memory(embedder={"provider": "hashed"})


# ------------------------------------------------------------------ which store passed what

_SEEN: dict[str, Counter[str]] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count what the contract suite says of each store, for docs/stores_page.py."""
    store = dict(report.user_properties).get("store")
    if store is not None and (report.when == "call" or report.outcome != "passed"):
        _SEEN.setdefault(str(store), Counter())[report.outcome] += 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write it down where PERDURE_STORES_REPORT asks for it; under xdist the gathering process alone does."""
    hand_over_codes(session)
    place = os.environ.get("PERDURE_STORES_REPORT")
    if place and not hasattr(session.config, "workerinput"):
        told = {"date": datetime.now(UTC).date().isoformat(), "stores": {name: _SEEN[name] for name in sorted(_SEEN)}}
        Path(place).write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
