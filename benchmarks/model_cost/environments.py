"""Virtual environments of the peers and of the tokenizers: made on demand, kept in one folder outside the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

INSTALL_SECONDS = 900
"""After which an installation counts as failed."""


@dataclass(frozen=True, slots=True)
class Environment:
    """What is installed, each line by one call of pip."""

    name: str
    installs: tuple[tuple[str, ...], ...]


PEERS = (
    Environment("mem0", (("mem0ai==2.2.1",),)),
    Environment("graphiti", (("graphiti-core[kuzu]==0.31.1", "httpx==0.28.1"),)),  # 0.31.1 imports httpx undeclared
    Environment("agent_cli", (("agent-cli[memory]==0.112.0",),)),
    Environment("langmem", (("langmem==0.0.30", "langchain-openai==1.7.3"),)),
)
TOKENIZERS = Environment(
    "tokenizers",
    (
        ("tiktoken==0.14.0", "tokenizers==0.23.3"),
        # Only the vocabularies inside are read, so that none of their requirements is needed.
        (
            "--no-deps",
            "bpe-openai==0.1.4",
            "llama-models==0.3.0",
            "dashscope==2.0.2",
            "mistral-common==1.13.1",
            "anthropic==0.38.0",
        ),
    ),
)


class NotInstalledError(Exception):
    """An environment could not be made; the text says why."""


def default_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "perdure-benchmarks"


def python_of(environment: Environment, folder: Path) -> Path:
    """The environment's Python, after installing what is missing; NotInstalledError with pip's own last words."""
    home = folder / environment.name
    python = home / "bin" / "python"
    stamp = home / "installed"
    wanted = "\n".join(" ".join(line) for line in environment.installs)
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted and python.exists():
        return python
    print(f"installing {environment.name} into {home}", file=sys.stderr)
    try:
        venv.create(home, with_pip=True, clear=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise NotInstalledError(f"no virtual environment: {error}") from error
    for line in environment.installs:
        command: list[str | Path] = [
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-input",
            *line,
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
        except subprocess.TimeoutExpired as error:
            raise NotInstalledError(f"pip took longer than {INSTALL_SECONDS} s") from error
        if done.returncode != 0:
            raise NotInstalledError(f"pip: {(done.stderr.strip().splitlines() or ['failed'])[-1][:300]}")
    stamp.write_text(wanted, encoding="utf-8")
    return python
