"""The memory tool's commands, with the wording and the shapes that Anthropic publishes."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

import perdure
from perdure import (
    AsyncMemory,
    AsyncMemoryTool,
    ClosedError,
    ConfigError,
    ForbiddenError,
    Memory,
    MemoryTool,
    ScopeError,
)
from perdure.engine.markdown import tool_files
from perdure.frontends.library.portal import PORTAL
from tests.frontends.library.memory_tools import ANA, do, fact, opened, paths, refused, text_of

PLAN = "/memories/notes/plan.md"
GONE = "The path {} does not exist"


@pytest.fixture(params=["sqlite", "memory", "markdown"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Memory]:
    with opened(tmp_path / "memory", request.param) as memory:
        yield memory


@pytest.fixture
def tool(memory: Memory) -> MemoryTool:
    return MemoryTool(memory, **ANA)


@pytest.fixture
def planned(tool: MemoryTool) -> MemoryTool:
    do(tool, "create", PLAN, file_text="# Plan\n- buy paint\n- call the plumber\n")
    return tool


# ------------------------------------------------------------------ the two doors
def test_i8_both_doors_have_one_surface() -> None:
    def surface(kind: type) -> dict[str, str]:
        members = inspect.getmembers(kind, lambda each: inspect.isroutine(each) or isinstance(each, property))
        named = {name: each for name, each in members if not name.startswith("_")}
        return {
            name: "property" if isinstance(each, property) else str(inspect.signature(each)).replace("Async", "")
            for name, each in named.items()
        }

    assert surface(MemoryTool) == surface(AsyncMemoryTool)
    assert {"handle", "answer", "definition", "root", "for_anthropic"} == {*surface(MemoryTool)}
    parameters = [str(inspect.signature(each).parameters["run_id"]) for each in (MemoryTool, AsyncMemoryTool)]
    assert len({*parameters}) == 1
    assert {"MemoryTool", "AsyncMemoryTool"} <= {*perdure.__all__}


def test_i8_the_async_door_does_the_same(tmp_path: Path) -> None:
    asyncio.run(_works(tmp_path))


async def _works(tmp_path: Path) -> None:
    memory = AsyncMemory({"path": str(tmp_path), "embedder": {"provider": "hashed"}})
    tool = AsyncMemoryTool(memory, **ANA)
    created = await tool.handle({"command": "create", "path": PLAN, "file_text": "one"})
    assert created == f"File created successfully at: {PLAN}"
    assert (await tool.answer({"command": "create", "path": PLAN, "file_text": "two"})).is_error
    assert "     1\tone" in await tool.handle({"command": "view", "path": PLAN})
    await memory.close()
    with pytest.raises(ClosedError):
        await tool.handle({"command": "view", "path": PLAN})


def test_i8_stands_on_a_memory_of_its_colour_and_on_a_scope(memory: Memory) -> None:
    with pytest.raises(ConfigError):
        MemoryTool(memory._memory, **ANA)  # type: ignore[arg-type]
    with pytest.raises(ConfigError):
        AsyncMemoryTool(memory, **ANA)  # type: ignore[arg-type]
    with pytest.raises(ScopeError):
        MemoryTool(memory)
    with pytest.raises(ForbiddenError):
        MemoryTool(memory.within(user_id="bo"), **ANA)


def test_i8_definition_and_result_are_as_the_interface_takes_them(tool: MemoryTool) -> None:
    assert tool.definition() == {"type": "memory_20250818", "name": "memory"}
    good, bad = (tool.answer({"command": "view", "path": path}) for path in ("/memories", "/memories/none"))
    shape = {"type": "tool_result", "tool_use_id": "toolu_1"}
    assert good.as_result("toolu_1") == {**shape, "content": good.text}
    assert bad.as_result("toolu_1") == {**shape, "content": bad.text, "is_error": True}


# ------------------------------------------------------------------ view
def test_i8_view_lists_two_levels_with_sizes(planned: MemoryTool) -> None:
    header = "Here're the files and directories up to 2 levels deep in {}, excluding hidden items:"
    do(planned, "create", "/memories/notes/deep/er/x.txt", file_text="y" * 1536)
    do(planned, "create", "/memories/a.txt", file_text="")
    assert do(planned, "view", "/memories").splitlines() == [
        header.format("/memories"),
        "1.5K\t/memories",
        "0B\t/memories/a.txt",
        "1.5K\t/memories/notes/",
        "1.5K\t/memories/notes/deep/",
        f"38B\t{PLAN}",
    ]
    assert do(planned, "view", "/memories/notes/").splitlines() == [
        header.format("/memories/notes"),
        "1.5K\t/memories/notes",
        "1.5K\t/memories/notes/deep/",
        "1.5K\t/memories/notes/deep/er/",
        f"38B\t{PLAN}",
    ]


def test_i8_view_of_nothing_yet(tool: MemoryTool) -> None:
    assert do(tool, "view", "/memories").splitlines()[1:] == ["0B\t/memories"]
    assert refused(tool, "view", "/memories/x") == GONE.format("/memories/x") + ". Please provide a valid path."


def test_i8_view_shows_lines_with_numbers(planned: MemoryTool) -> None:
    begin = f"Here's the content of {PLAN} with line numbers:\n"
    assert (
        do(planned, "view", PLAN) == begin + "     1\t# Plan\n     2\t- buy paint\n     3\t- call the plumber\n     4\t"
    )
    assert do(planned, "view", PLAN, view_range=[]) == do(planned, "view", PLAN, view_range=None)
    assert do(planned, "view", PLAN, view_range=[2, 2]) == begin + "     2\t- buy paint"
    assert do(planned, "view", PLAN, view_range=[3, -1]) == begin + "     3\t- call the plumber\n     4\t"
    assert do(planned, "view", PLAN, view_range=[4, 99]) == begin + "     4\t"


@pytest.mark.parametrize("range", [[0, 2], [5, 6], [3, 2], [1], [1, 2, 3], ["1", 2], [True, 2], "1-2", [-1, -1], {}])
def test_i8_view_refuses_a_range_that_is_none(planned: MemoryTool, range: object) -> None:
    assert "Invalid `view_range` parameter" in refused(planned, "view", PLAN, view_range=range)


# ------------------------------------------------------------------ create
@pytest.mark.parametrize(
    "text", ["", " ", "\n", "a", "a\n", "a\n\n", "\n a \n", "é\r\nü", "---\nid: 1\n---\nx\n", "\ttab"]
)
def test_i8_create_keeps_every_text_as_it_is(tool: MemoryTool, text: str) -> None:
    assert do(tool, "create", "/memories/x.md", file_text=text) == "File created successfully at: /memories/x.md"
    (item,) = (file.item for file in PORTAL.call(tool._asynchronous._files.seen("")).values())
    assert (item.memory, item.kind, item.metadata) == (text, "files", {"path": "x.md"})


def test_i8_create_does_not_overwrite(planned: MemoryTool) -> None:
    assert refused(planned, "create", PLAN, file_text="x") == f"Error: File {PLAN} already exists"
    assert "# Plan" in text_of(planned, PLAN)
    assert "already exists" in refused(planned, "create", "/memories/notes", file_text="x")
    assert "already exists" in refused(planned, "create", "/memories/notes/PLAN.md", file_text="x")
    assert "is a file" in refused(planned, "create", f"{PLAN}/x", file_text="x")
    assert "use its name as it is" in refused(planned, "create", "/memories/Notes/y.md", file_text="x")
    assert "already exists" in refused(planned, "create", "/memories", file_text="x")


def test_i8_create_has_bounds(tool: MemoryTool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "larger than 1000000 bytes" in refused(tool, "create", "/memories/x", file_text="é" * 500_001)
    assert "no text" in refused(tool, "create", "/memories/x", file_text="a\x00")
    assert "no text" in refused(tool, "create", "/memories/x", file_text="a\ud800")
    monkeypatch.setattr(tool_files, "MOST", 1)
    do(tool, "create", "/memories/x", file_text="x")
    assert "delete some first" in refused(tool, "create", "/memories/y", file_text="x")


# ------------------------------------------------------------------ str_replace and insert
def test_i8_str_replace_changes_one_place(planned: MemoryTool) -> None:
    told = do(planned, "str_replace", PLAN, old_str="paint", new_str="blue\npaint")
    assert told == (
        "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
        "     1\t# Plan\n     2\t- buy blue\n     3\tpaint\n     4\t- call the plumber\n     5\t"
    )
    do(planned, "str_replace", PLAN, old_str="\n- call the plumber\n")
    assert text_of(planned, PLAN) == "# Plan\n- buy blue\npaint"


def test_i8_str_replace_wants_one_place(planned: MemoryTool) -> None:
    for old in ("Paint", "", "- buy  paint"):
        told = refused(planned, "str_replace", PLAN, old_str=old, new_str="x")
        assert told == f"No replacement was performed, old_str `{old}` did not appear verbatim in {PLAN}."
    told = refused(planned, "str_replace", PLAN, old_str="- ", new_str="x")
    assert told == (
        "No replacement was performed. Multiple occurrences of old_str `- ` in lines: 2, 3. Please ensure it is unique"
    )
    for path in ("/memories/notes", "/memories/none.md"):
        told = refused(planned, "str_replace", path, old_str="a", new_str="b")
        assert told == f"Error: {GONE.format(path)}. Please provide a valid path."


@pytest.mark.parametrize(("line", "expected"), [(0, "new\n# Plan"), (1, "# Plan\nnew"), (3, "- call the plumber\nnew")])
def test_i8_insert_after_a_line(planned: MemoryTool, line: int, expected: str) -> None:
    assert do(planned, "insert", PLAN, insert_line=line, insert_text="new\n") == f"The file {PLAN} has been edited."
    assert expected in text_of(planned, PLAN)
    assert len(text_of(planned, PLAN).splitlines()) == 4


@pytest.mark.parametrize("line", [-1, 4, "1", None, True, 1.5])
def test_i8_insert_refuses_a_line_that_is_none(planned: MemoryTool, line: object) -> None:
    assert refused(planned, "insert", PLAN, insert_line=line, insert_text="x") == (
        f"Error: Invalid `insert_line` parameter: {line}. It should be within the range of lines of the file: [0, 3]"
    )
    assert refused(planned, "insert", "/memories/no", insert_line=0, insert_text="x") == (
        "Error: The path /memories/no does not exist"
    )


# ------------------------------------------------------------------ delete and rename
def test_i8_delete_a_file_and_a_folder(planned: MemoryTool) -> None:
    do(planned, "create", "/memories/notes/b/c.md", file_text="x")
    do(planned, "create", "/memories/notesX.md", file_text="x")
    assert do(planned, "delete", PLAN) == f"Successfully deleted {PLAN}"
    assert refused(planned, "delete", PLAN) == f"Error: {GONE.format(PLAN)}"
    assert do(planned, "delete", "/memories/notes") == "Successfully deleted /memories/notes"
    assert paths(planned) == ["/memories/notesX.md"]
    assert "Cannot delete the /memories directory itself" in refused(planned, "delete", "/memories/")


def test_i8_rename_a_file_and_a_folder(planned: MemoryTool) -> None:
    told = do(planned, "rename", old_path=PLAN, new_path="/memories/notes/old/plan.txt")
    assert told == f"Successfully renamed {PLAN} to /memories/notes/old/plan.txt"
    do(planned, "rename", old_path="/memories/notes", new_path="/memories/archive")
    assert paths(planned, "/memories/archive") == ["/memories/archive/old/", "/memories/archive/old/plan.txt"]
    assert "# Plan" in text_of(planned, "/memories/archive/old/plan.txt")


def test_i8_rename_refuses_what_would_be_lost(planned: MemoryTool) -> None:
    do(planned, "create", "/memories/b.md", file_text="x")
    for to in ("/memories/b.md", "/memories/B.md", "/memories/notes", "/memories"):
        assert refused(planned, "rename", old_path=PLAN, new_path=to) == f"Error: The destination {to} already exists"
    assert refused(planned, "rename", old_path="/memories/no", new_path="/memories/x") == (
        "Error: The path /memories/no does not exist"
    )
    assert "into itself" in refused(planned, "rename", old_path="/memories/notes", new_path="/memories/notes/a")
    assert "is a file" in refused(planned, "rename", old_path=PLAN, new_path="/memories/b.md/x")
    assert "Cannot rename" in refused(planned, "rename", old_path="/memories", new_path="/memories/x")
    deep = "/memories/" + "/".join("x" * 90 for _ in range(5))
    assert "too long" in refused(planned, "rename", old_path="/memories/notes", new_path=f"{deep}/{'y' * 50}")


# ------------------------------------------------------------------ what is no command
@pytest.mark.parametrize(
    ("command", "told"),
    [
        ({}, "Unknown command: None"),
        ({"command": "chmod", "path": "/memories"}, "Unknown command: 'chmod'"),
        ({"command": ["view"], "path": "/memories"}, "Unknown command"),
        ({"command": "view"}, "Missing required parameter: path"),
        ({"command": "view", "path": None}, "A path must be text"),
        ({"command": "create", "path": "/memories/a"}, "Missing required parameter: file_text"),
        ({"command": "create", "path": "/memories/a", "file_text": 3}, "file_text must be text"),
        ({"command": "rename", "old_path": "/memories/a"}, "Missing required parameter: new_path"),
        ("view", "A command must be an object"),
    ],
)
def test_i8_what_is_no_command_is_told(tool: MemoryTool, command: object, told: str) -> None:
    answer = tool.answer(command)  # type: ignore[arg-type]
    assert answer.is_error
    assert told in answer.text
    assert tool.handle(command) == answer.text  # type: ignore[arg-type]


# ------------------------------------------------------------------ what memory keeps
def test_i8_facts_are_files_that_can_be_edited_and_deleted(tool: MemoryTool, memory: Memory) -> None:
    memory.add("I live in Oslo. I like tea.", **ANA)
    oslo, tea = fact(tool, "Oslo"), fact(tool, "tea")
    (item,) = (each for each in memory.get_all(**ANA).results if "Oslo" in each.memory)
    assert item.id in oslo
    do(tool, "str_replace", oslo, old_str="Oslo", new_str="Bergen")
    after = memory.get(item.id)
    assert after is not None
    assert (after.memory, after.origin) == ("User lives in Bergen", "assistant")
    assert any("Bergen" in each.memory for each in memory.search("Where does the user live?", **ANA).results)
    last = memory.history(item.id)[-1]
    assert (last.event, last.actor) == ("UPDATE", "memory_tool")
    memory.undo(last.id)
    assert text_of(tool, oslo) == "User lives in Oslo"
    do(tool, "delete", tea)
    assert [each.memory for each in memory.get_all(**ANA).results] == ["User lives in Oslo"]
    assert paths(tool, "/memories/facts") == [oslo]
    assert "would be empty" in refused(tool, "str_replace", oslo, old_str="User lives in Oslo", new_str=" ")


def test_i8_the_folders_of_memory_take_no_files(tool: MemoryTool, memory: Memory) -> None:
    memory.add("I live in Oslo.", **ANA)
    oslo = fact(tool, "Oslo")
    for folder in ("facts", "turns", "summaries", "Facts", "ＦＡＣＴＳ"):
        assert "filled by memory itself" in refused(tool, "create", f"/memories/{folder}/x.md", file_text="x")
    assert "filled by memory itself" in refused(tool, "rename", old_path=oslo, new_path="/memories/x.md")
    assert "holds what memory keeps" in refused(tool, "delete", "/memories/facts")
    assert memory.get_all(**ANA).results


def test_i8_what_was_said_is_read_only(tmp_path: Path) -> None:
    with opened(tmp_path, "markdown", episodes="search") as memory:
        memory.add("I live in Oslo.", **ANA)
        tool = MemoryTool(memory, **ANA)
        (turn,) = paths(tool, "/memories/turns/user")
        assert text_of(tool, turn) == "I live in Oslo."
        assert "read-only" in refused(tool, "str_replace", turn, old_str="Oslo", new_str="Rome")
        assert "read-only" in refused(tool, "insert", turn, insert_line=0, insert_text="x")
        assert "read-only" in refused(tool, "delete", turn)
        assert "holds what memory keeps" in refused(tool, "delete", "/memories/turns")
