"""One version a turn of a conversation, and several who work on one folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from perdure import Memory
from tests.backends.git.folders import git
from tests.engine.chat.talks import World, run, talk, user
from tests.engine.markdown.memories import ANA, commits, config, files, opened, settled, texts

pytestmark = pytest.mark.covers("K22", "K55")

WRITER = """
import sys
from perdure import Memory
from tests.engine.markdown.memories import ANA, config
from pathlib import Path
with Memory(config(Path(sys.argv[1]))) as memory:
    for number in range(5):
        memory.add(f"Note {number} of {sys.argv[2]}", infer=False, **ANA)
"""


@pytest.mark.covers("K55")
def test_a_turn_is_one_version_with_its_words_facts_tombstones_and_summary(tmp_path: Path) -> None:
    path = tmp_path / "memory"

    async def work(opened: World) -> list[str]:
        versions = opened.engine.versions
        await opened.keep(talk(), user("I live in Oslo"), "Nice.")
        await opened.settle()
        await versions.log(None, 9)
        await opened.keep(talk(), user("I moved to Bergen"), "Good to know.")
        await opened.settle()
        newest, *_ = await versions.log(None, 9)
        assert [change.change for change in newest.changes] == ["changed", "summarised", "heard", "heard"]
        return commits(path)

    settings = {"summaries": True}
    store = {"provider": "markdown"}
    titles = run(work, path, settings=settings, vector_store=store, episodes="search", updates="supersede")
    assert titles[0] == "User's home: Oslo → Bergen (and 1 more)"
    assert len(titles) == 3
    assert git(path, "status", "--porcelain") == ""


def test_two_processes_on_one_folder_lose_no_version(tmp_path: Path) -> None:
    path = tmp_path / "memory"
    with opened(path) as memory:
        settled(memory)
        writers = [
            subprocess.Popen([sys.executable, "-c", WRITER, str(path), name], cwd=Path(__file__).parents[3])
            for name in ("one", "two")
        ]
        assert [writer.wait(120) for writer in writers] == [0, 0]
        assert len(texts(memory)) == 10
    assert sorted(files(path)) == sorted(f"Note {number} of {name}" for name in ("one", "two") for number in range(5))
    assert git(path, "status", "--porcelain") == ""
    assert len(git(path, "ls-files", "entries").split()) == 10


def test_a_memory_that_nobody_closed_ends_with_the_program_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "memory"
    program = f"from perdure import Memory; Memory({config(path)!r}).add('I live in Oslo', user_id='ana')"
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, timeout=120)
    with Memory(config(path)) as memory:
        assert texts(memory, **ANA) == ["User lives in Oslo"]
        assert settled(memory)[0] == "Learned: User lives in Oslo"
