"""Paths of the memory tool: none leads out of the scope's folder, whatever an agent is told."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from perdure import Memory, MemoryTool
from perdure.backends.markdown.layout import file_of, path_at
from perdure.engine.markdown.tool_files import Refused, absolute, read_path
from tests.frontends.library.memory_tools import ANA, do, opened, paths, refused, text_of

ESCAPES = [
    "",
    "/",
    "/etc/passwd",
    "memories/x",
    "/memoriesx",
    "/memories-other/x",
    "//memories/x",
    "/memories/..",
    "/memories/../etc/passwd",
    "/memories/a/../../x",
    "/memories/./x",
    "/memories/a//b",
    "/memories/%2e%2e/x",
    "/memories/%2E%2E%2Fx",
    "/memories/%252e%252e/x",
    "/memories/a%2fb",
    "/memories/..%5cx",
    "/memories/a\\..\\x",
    "/memories/\uff0e\uff0e/x",
    "/memories/a\uff0fb",
    "/memories/a\u2024\u2024/\u2025/x",
    "/memories/ .. /x",
    "/memories/x\x00.md",
    "/memories/x\n.md",
    "/memories/x\u202egpj.md",
    "/memories/x\u200b.md",
    "/memories/\ud800",
    "/memories/x ",
    "/memories/e\u0301.md",
    "/memories/.git/config",
    "/memories/a/.hidden",
    "/memories/" + "x" * 101,
    "/memories/" + "/".join("ab" * 13),
    "/memories/" + "/".join(["x" * 90] * 6),
    None,
    7,
    ["/memories"],
]


@pytest.fixture(params=["sqlite", "markdown"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Memory]:
    with opened(tmp_path / "memory", request.param) as memory:
        yield memory


@pytest.fixture
def tmp_path(tmp_path: Path) -> Path:
    """A folder deep in one of the test's own, so that what leaves it is seen."""
    folder = tmp_path / "one" / "two" / "three"
    folder.mkdir(parents=True)
    return folder


def test_i8_no_command_takes_a_path_that_leads_elsewhere(memory: Memory, tmp_path: Path) -> None:
    tool = MemoryTool(memory, **ANA)
    do(tool, "create", "/memories/a/b", file_text="x")
    outside = {path for path in tmp_path.parents[2].rglob("*") if tmp_path not in path.parents}
    for path in ESCAPES:
        for command in ("view", "delete"):
            refused(tool, command, **{"path": path} if path is not None else {})
        refused(tool, "create", file_text="x", path=path)
        refused(tool, "str_replace", old_str="x", new_str="y", path=path)
        refused(tool, "insert", insert_line=0, insert_text="y", path=path)
        refused(tool, "rename", old_path=path, new_path="/memories/c")
        refused(tool, "rename", old_path="/memories/a", new_path=path)
    assert text_of(tool, "/memories/a/b") == "x"
    assert {path for path in tmp_path.parents[2].rglob("*") if tmp_path not in path.parents} == outside


def test_i8_an_answer_shows_no_more_of_a_path_than_it_needs() -> None:
    with pytest.raises(Refused) as caught:
        read_path("/memories/\u202e\x1b[31m" + "x" * 100_000)
    assert len(str(caught.value)) < 500
    assert all(unicodedata.category(each) not in ("Cc", "Cf") for each in str(caught.value))


NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20) | st.sampled_from(
    ["..", ".", "a", "A", "x.md", "x.tmp", "con", "deleted", "facts", "x.2.md", "y-0123abcd", "é", "%2e", "a b"]
)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


@given(PATHS)
def test_i8_what_is_a_path_stays_below_the_folder_and_is_read_back(path: str) -> None:
    try:
        below = read_path(f"/memories/{path}")
    except Refused:
        return
    if not below:
        return
    assert read_path(absolute(below)) == below
    place = file_of(below)
    parts = place.split("/")
    assert len(parts) == len(below.split("/"))
    for part in parts:
        assert part.isascii()
        assert not part.startswith(".")
        assert part.strip(". ")
        assert not {*part} & {*'\\:*?"<>|\x00'}
    assert place.endswith(".md")
    assert not any(part.endswith((".tmp", ".md")) for part in parts[:-1])
    assert path_at(f"folder/files/{place}", below) == below
    assert path_at(f"folder/deleted/files/{place.removesuffix('.md')}.2.md", below) == below


@given(PATHS, PATHS)
def test_i8_two_paths_have_two_places(one: str, two: str) -> None:
    def kept(path: str) -> str:
        return path.removesuffix(".md")

    assert (file_of(one) == file_of(two)) == (kept(one) == kept(two))


# ------------------------------------------------------------------ two scopes, any commands
@dataclass
class Model:
    """The files of a scope as a person would keep them."""

    files: dict[str, str] = field(default_factory=dict)

    def folders(self) -> set[str]:
        return {path.rpartition("/")[0] for path in self.files if "/" in path}

    def is_free(self, path: str) -> bool:
        above = path.rpartition("/")[0]
        return path not in self.files and path not in self.folders() and above not in self.files


PLACES = st.sampled_from(["a", "b", "a/x", "b/x", "c/y.md", "c"])
STEPS = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from(["create", "insert", "delete", "rename"]), PLACES, PLACES),
    max_size=12,
)


@settings(max_examples=25)
@given(steps=STEPS)
@example(steps=[(0, "create", "a/x", "a"), (0, "rename", "a", "b/x")])
@pytest.mark.parametrize("provider", ["memory", "markdown"])
def test_i8_two_scopes_never_meet(
    tmp_path_factory: pytest.TempPathFactory, provider: str, steps: list[tuple[int, str, str, str]]
) -> None:
    store = {"config": {"git": False}} if provider == "markdown" else {}
    config = {"vector_store": {"provider": provider, **store}}
    with opened(tmp_path_factory.mktemp("walls"), provider, **config) as memory:
        tools = [MemoryTool(memory, user_id="ana"), MemoryTool(memory, user_id="ana", run_id="r")]
        models = [Model(), Model()]
        for number, (who, command, path, other) in enumerate(steps):
            step(tools[who], models[who], command, path, other, str(number))
        for tool, model in zip(tools, models, strict=True):
            assert files_below(tool) == {absolute(path) for path in model.files}
            assert {path: text_of(tool, absolute(path)) for path in model.files} == model.files


def files_below(tool: MemoryTool, folder: str = "/memories") -> set[str]:
    """The files of a folder, however deep: a listing shows two levels, and a renamed folder lies deeper."""
    listed = paths(tool, folder)
    files = {path for path in listed if not path.endswith("/")}
    return files.union(*(files_below(tool, path.removesuffix("/")) for path in listed if path.endswith("/")))


def step(tool: MemoryTool, model: Model, command: str, path: str, other: str, text: str) -> None:
    """One command at a tool and at its model."""
    if command == "rename":
        answer = tool.answer({"command": command, "old_path": absolute(path), "new_path": absolute(other)})
    else:
        given = {"file_text": text, "insert_text": text, "insert_line": 0}
        answer = tool.answer({"command": command, "path": absolute(path), **given})
    moving = [each for each in model.files if each == path or each.startswith(f"{path}/")]
    expected = False
    if command == "create":
        expected = model.is_free(path)
        model.files |= {path: text} if expected else {}
    elif command == "insert":
        expected = path in model.files
        if expected:
            model.files[path] = "\n".join([text, *model.files[path].removesuffix("\n").split("\n")]) + "\n"
    elif command == "delete":
        expected = bool(moving)
        model.files = {each: kept for each, kept in model.files.items() if each not in moving}
    else:
        rest = Model({each: kept for each, kept in model.files.items() if each not in moving})
        expected = bool(moving) and model.is_free(other) and rest.is_free(other) and not other.startswith(f"{path}/")
        if expected:
            moved = {other + each.removeprefix(path): model.files[each] for each in moving}
            model.files = rest.files | moved
    assert answer.is_error is not expected, answer.text
