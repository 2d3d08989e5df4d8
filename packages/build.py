"""Build what is published: perdure-minilm (weights), perdure-slim (code) and perdure (both).

    python packages/build.py FOLDER

Each is built twice and must come out as the same bytes; then twine and check-wheel-contents look at them. What is in
FOLDER of an earlier build is removed. Needs the group `dev`, and pip's index for what builds bring.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECTS = {
    "perdure_minilm": ROOT / "packages" / "minilm",
    "perdure_slim": ROOT,
    "perdure": ROOT / "packages" / "perdure",
}
EPOCH = "1577836800"
"""2020-01-01: the time of every file in the archives, unless SOURCE_DATE_EPOCH says another."""

UNASKED = {"perdure": "W007,W008"}
"""What check-wheel-contents is not asked: the whole is a list of needs without a module."""


def build(name: str, folder: Path) -> list[Path]:
    """Build one project, the wheel from its source distribution, and return both files."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH", EPOCH)}
    command = [sys.executable, "-m", "build", "--outdir", str(folder), str(PROJECTS[name])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{name} cannot be built:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return sorted(file for file in folder.iterdir() if file.name.startswith(f"{name}-"))


def digest(file: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def check(files: list[Path]) -> None:
    """Raise CalledProcessError if twine or check-wheel-contents finds a fault."""
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *map(str, files)], check=True)
    for wheel in (file for file in files if file.suffix == ".whl"):
        ignored = UNASKED.get(wheel.name.split("-")[0])
        options = ["--ignore", ignored] if ignored else []
        subprocess.run([sys.executable, "-m", "check_wheel_contents", "--no-config", *options, str(wheel)], check=True)


def main() -> int:
    """Build all into the folder; 1 if two builds of one differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name in PROJECTS:
        for old in folder.glob(f"{name}-[0-9]*"):
            old.unlink()
    files = [file for name in PROJECTS for file in build(name, folder)]
    with tempfile.TemporaryDirectory() as again:
        second = {file.name: digest(file) for name in PROJECTS for file in build(name, Path(again))}
    differ = [file.name for file in files if second.get(file.name) != digest(file)]
    if differ or len(second) != len(files):
        print(f"two builds differ: {differ}", file=sys.stderr)
        return 1
    check(files)
    for file in files:
        print(f"{file.stat().st_size / 1e6:6.1f} MB  {digest(file)}  {file.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
