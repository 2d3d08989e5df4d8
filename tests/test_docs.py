"""Docs that cannot lie: blocks run and print what the page shows, generated pages are what the code says, links lead.

A ```python block runs; what it prints stands in a ```text block directly after it, and a block that calls print must
print. A ```sh block is run too where a ```text block follows it. `...` in what is shown stands for what differs from
run to run (ids, moments, the last digits of a score), as in doctest's ELLIPSIS; all else is compared to the letter.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from perdure.backends.http.resumed_download import user_cache_dir
from tests.backends.wire.ollama import OllamaWire

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$(?:\s*^```text\n(.*?)^```$)?", re.DOTALL | re.MULTILINE)
MODEL_SAYS = '{"facts": ["User has a newborn daughter named Noa"]}'
"""What the local server of language models answers, once for each page."""


@dataclass(frozen=True)
class Block:
    language: str
    code: str
    shown: str | None

    @property
    def command(self) -> list[str]:
        if self.language == "python":
            return [sys.executable, "-W", "error", "-c", self.code]
        return ["bash", "-eu", "-o", "pipefail", "-c", self.code]


def blocks(page: Path) -> list[Block]:
    """The blocks of a page that are run."""
    found = [Block(*each.groups()) for each in FENCE.finditer(page.read_text(encoding="utf-8"))]
    return [each for each in found if each.language == "python" or (each.language == "sh" and each.shown is not None)]


def same(shown: str, printed: str) -> bool:
    return doctest.OutputChecker().check_output(shown, printed, doctest.ELLIPSIS | doctest.DONT_ACCEPT_BLANKLINE)


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A user's: an empty home, `perdure` on the path, Ollama's server on this machine, no keys."""
    kept = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_BASE_URL"))}
    cache = (user_cache_dir() or tmp_path / "perdure").parent  # built graphs of the embedder
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with OllamaWire(MODEL_SAYS) as model:
        yield {
            **kept,
            "HOME": str(tmp_path / "home"),
            "XDG_CACHE_HOME": str(cache),
            "PATH": path,
            "OLLAMA_HOST": model.address,
        }


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name)
def test_blocks_run_in_order_and_print_what_is_shown(page: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    for number, block in enumerate(blocks(page), 1):
        done = subprocess.run(block.command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        where = f"{page.name}, block {number}:\n{block.code}"
        assert done.returncode == 0, f"{where}\n{done.stderr}"
        if block.language == "python":  # a command tells on standard error what it did
            assert done.stderr == "", f"{where}wrote: {done.stderr}"
        assert done.stdout or "print(" not in block.code, f"{where}printed nothing"
        assert same(block.shown or "", done.stdout), f"{where}printed\n{done.stdout}and the page shows\n{block.shown}"


def test_what_is_shown_is_held_against_what_is_printed() -> None:
    assert same("ADD ... tea\n0.9...\n", "ADD 5f3a tea\n0.93\n")
    assert not same("", "something\n")
    assert not same("something\n", "")
    assert not same("User likes tea\n", "User likes milk\n")
    assert not same("one\n", "one\ntwo\n")


def test_generated_pages_are_fresh() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


GUIDES = ("docs/architecture.md", "docs/glossary.md", "CONTRIBUTING.md")
SOURCE = ROOT / "src" / "perdure"
FLOORS = ("domain/", "backends/", "pipeline/", "engine/", "frontends/")
FOLDERS = ("src/", "tests/", "docs/", "tools/", "benchmarks/", "examples/")


@pytest.mark.parametrize("page", GUIDES)
def test_files_that_a_guide_names_are_there(page: str) -> None:
    named = set(re.findall(r"`([\w./-]+)`", (ROOT / page).read_text("utf-8")))
    paths = {each: SOURCE / each for each in named if each.startswith(FLOORS)}
    paths |= {each: ROOT / each for each in named if each.startswith(FOLDERS) and "NAME" not in each}
    assert [each for each, path in sorted(paths.items()) if not path.exists()] == []


CODE = re.compile(r"\b[ABCKTUVXZ]\d{1,3}\b|\b[Ss]pec(?:ification)? 00\d")
"""A code or a number of a specification."""


def prose(page: Path) -> Iterator[tuple[int, str]]:
    """The numbered lines of a page outside of code and tables."""
    in_code = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        is_fence = line.lstrip().startswith("```")
        if not (in_code or is_fence or line.startswith("|")):
            yield number, line
        in_code ^= is_fence


TEXTS = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]


def test_prose_is_wrapped_at_100_columns() -> None:
    def is_long(line: str) -> bool:
        return len(line) > 100 and " " in line.strip().lstrip("-# ")

    assert [f"{page.name}:{number}" for page in TEXTS for number, line in prose(page) if is_long(line)] == []


def test_pages_name_no_codes_of_the_specifications() -> None:
    named = [
        f"{page.name}:{number}: {code}"
        for page in TEXTS
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        for code in CODE.findall(line)
        if page.parent.name != "adr"
    ]
    assert named == []
