"""The command line: what a command loads is what it needs, and what only looks makes no memory where there is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from perdure.frontends.cli.main import COMMANDS, GROUPS, app
from tests.frontends.cli.runs import folder, perdure

PROBE = """
import sys
from perdure.frontends.cli.main import main
status = main(sys.argv[1:])
print(*sorted(sys.modules))
sys.exit(status)
"""


def loaded_by(*arguments: str) -> set[str]:
    """The modules that a process has loaded once it has done a command."""
    done = subprocess.run([sys.executable, "-c", PROBE, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("command", [("list",), ("search", "where does she live?")], ids=["list", "search"])
def test_what_only_looks_loads_nothing_that_reads_messages(tmp_path: Path, command: tuple[str, ...]) -> None:
    at = folder(tmp_path / "memory")
    at.said("Ana lives in Lisbon")
    loaded = loaded_by(*command, "--user-id", "ana", "--path", str(at.path))
    heavy = {
        "curation.rules.extraction",
        "curation.rules.extraction.conversation_reader",
        "curation.rules.reconciliation.decisions",
        "maintenance.insight.actions",
    }
    assert not {f"perdure.pipeline.{name}" for name in heavy} & loaded
    assert not {"onnxruntime", "tokenizers", "fastapi", "rich"} & loaded


NOT_FOR_A_LIST = (
    "http",
    "numpy",
    "perdure.backends.vector_stores.common.scoring",
    "perdure.backends.vector_stores.sqlite.search",
    "perdure.engine.read.fused",
    "perdure.engine.read.profile",
    "perdure.engine.read.search",
    "perdure.pipeline.prompting",
    "perdure.pipeline.retrieval.directives",
    "perdure.pipeline.retrieval.features",
    "perdure.pipeline.retrieval.fusion",
    "perdure.pipeline.retrieval.question",
    "perdure.pipeline.retrieval.rescoring",
    "perdure.pipeline.retrieval.time_window",
    "urllib.request",
)


@pytest.mark.parametrize("command", ["list", "get"])
def test_what_only_lists_loads_neither_numpy_nor_what_ranks(tmp_path: Path, command: str) -> None:
    at = folder(tmp_path / "memory")
    id = at.said("Ana lives in Lisbon")
    asked = ("--user-id", "ana") if command == "list" else (id,)
    loaded = loaded_by(command, *asked, "--path", str(at.path))
    assert sorted(name for name in loaded if any(f"{name}.".startswith(f"{each}.") for each in NOT_FOR_A_LIST)) == []


def test_what_remembers_loads_what_it_needs(tmp_path: Path) -> None:
    at = folder(tmp_path / "memory")
    loaded = loaded_by("add", "I live in Lisbon.", "--user-id", "ana", "--path", str(at.path))
    assert {
        "perdure.pipeline.curation.rules.extraction.conversation_reader",
        "perdure.pipeline.curation.rules.slots",
    } <= loaded
    assert at.texts() == ["User lives in Lisbon"]


ID = "3f6c1d2e-6a0b-4a57-9d0e-2f4b8c1a7e55"
LOOKING: dict[str, tuple[str, ...]] = {
    "search": ("where?",), "why-not": ("where?", ID), "list": (), "get": (ID,), "update": (ID, "text"),
    "delete": (ID,), "forget": (ID, "--yes"), "history": (ID,), "undo": (ID,), "log": (), "diff": ("HEAD~1",),
    "revert": (ID,), "branch": (), "merge": ("other",), "pull": (), "push": (), "trust": (ID,), "distrust": (ID,),
    "doctor": (), "bench": (), "reindex": (), "copy": ("other",), "export": (), "consolidate": ("--user-id", "ana"),
    "reflect": ("--user-id", "ana"), "feedback": (ID, "good"), "prune": ("--yes",), "expire": ("--yes",),
    "quota": ("--yes",), "evict": ("--user-id", "ana", "--run-id", "a", "--max", "5", "--yes"), "backup": (),
    "upkeep": ("--all",), "keys list": (), "keys revoke": ("app",),
}  # fmt: skip
"""Commands that need a memory, with what else they ask for."""
MAKING = {"init", "add", "import", "restore", "chat", "demo", "serve", "proxy", "mcp", "hook", "install"}


def test_each_command_looks_or_makes() -> None:
    assert {name for name, _, _ in COMMANDS} == {name for name in LOOKING if " " not in name} | MAKING


@pytest.mark.parametrize("command", LOOKING)
def test_what_only_looks_makes_no_memory_where_a_path_is_mistyped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = perdure(*command.split(), *LOOKING[command], "--path", str(tmp_path / "memroy"))
    assert ran.status == 3, ran.err
    assert f"there is no memory in {tmp_path / 'memroy'}" in ran.err
    assert not any(tmp_path.iterdir())


def test_a_store_elsewhere_is_read_from_a_folder_that_is_not_there_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_VECTOR_STORE__PROVIDER", "memory")
    ran = perdure("list", "--user-id", "ana", "--path", str(tmp_path / "new"))
    assert ran.status == 0, ran.err


def test_the_table_of_commands_is_true() -> None:
    """Each line of the table names a function that explains itself, or a group of commands."""
    every = (*COMMANDS, *GROUPS)
    assert len({each.name for each in every}) == len(every)
    for each in every:
        command = each.load()
        assert (command.name, command.short_help) == (each.name, each.line)
        assert command.help, each.name
        assert not command.hidden
        assert isinstance(command, TyperGroup) == (each in GROUPS)
        assert each.line.endswith(".")


def test_the_list_of_commands_names_those_of_the_table_and_imports_none() -> None:
    assert list(typer.main.get_command(app).commands) == [each.name for each in (*COMMANDS, *GROUPS)]
    loaded = loaded_by("--help")
    assert [name for name in loaded if name.startswith("perdure.frontends.cli.commands")] == []
    assert not {"asyncio", "numpy", "perdure.engine", "pydantic", "rich"} & loaded


def test_a_command_imports_no_more_than_its_own_module_stands_on() -> None:
    loaded = loaded_by("list", "--help")
    found = {name for name in loaded if name.startswith("perdure.frontends.cli.commands.")}
    assert found == {"perdure.frontends.cli.commands.search"}


def test_a_mistyped_command_is_told_the_nearest_one() -> None:
    ran = perdure("serch", "where?")
    assert ran.status == 2
    assert "Did you mean 'search'" in ran.err


@pytest.mark.parametrize("group", ["keys", "memory"])
def test_a_group_alone_shows_its_help_in_lines(group: str) -> None:
    shown = perdure(group)
    assert shown.status == 2
    assert not shown.out
    assert shown.err.startswith(f"Usage: perdure {group} ")
    assert "\nCommands:\n" in shown.err
