"""The pip lines that install what is missing into this installation. No other place in the code names one.

`perdure-slim` is the code, `perdure-minilm` the weights, and `perdure` both with all that the default needs. None is on
a package index yet, so a perdure from a checkout, a folder or a repository names that.
"""

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

CODE, WEIGHTS, WHOLE = "perdure-slim", "perdure-minilm", "perdure"
_WEIGHTS_FOLDER = "packages/minilm"


def extra_line(extra: str) -> str:
    """Return the command that installs one of perdure's extras into the running environment.

    It installs from where this perdure came: its checkout, a recorded folder or URL (PEP 610), or else the package
    index. The extra `minilm` needs the weights, which come from the same place.
    """
    weights = _weights_source() if extra == "minilm" else ()
    return _pip_line(*_source(extra), *(each for each in weights if each != WEIGHTS))


def weights_line() -> str:
    """Return the command that installs the weights of the built-in embedder."""
    return _pip_line(*_weights_source())


def _pip_line(*arguments: str) -> str:
    """Return a shell command; it names the interpreter if the `pip` on the path belongs to another one."""
    found = shutil.which("pip")
    own = found is not None and Path(found).parent == Path(sys.executable).parent
    command = ["pip"] if own or find_spec("pip") is None else [sys.executable, "-m", "pip"]
    return shlex.join([*command, "install", *arguments])


def _checkout() -> Path | None:
    """Return the checkout that this code lies in."""
    found = Path(__file__).parents[3]
    return found if (found / "pyproject.toml").is_file() and (found / "src" / "perdure").is_dir() else None


def _record() -> tuple[Distribution | None, dict[str, Any]]:
    """Return the installed distribution of the code, and where it came from, if that was no package index."""
    from importlib.metadata import PackageNotFoundError, distribution  # only errors need it

    try:
        installed = distribution(CODE)
        return installed, json.loads(installed.read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, OSError, ValueError):
        return None, {}


def _source(extra: str) -> tuple[str, ...]:
    if checkout := _checkout():
        return "--editable", f"{checkout}[{extra}]"
    installed, record = _record()
    if installed is None or "url" not in record:
        return (f"{_published()}[{extra}]",)
    if "dir_info" not in record:
        return (f"{CODE}[{extra}] @ {_address(record)}",)
    folder = unquote(urlsplit(record["url"]).path)
    return (f"{folder}[{extra}]",) if Path(folder).is_dir() else _needs(installed, extra)


def _weights_source() -> tuple[str, ...]:
    if checkout := _checkout():
        return (str(checkout / _WEIGHTS_FOLDER),)
    _, record = _record()
    if "dir_info" in record:
        folder = Path(unquote(urlsplit(record["url"]).path)) / _WEIGHTS_FOLDER
        return (str(folder),) if folder.is_dir() else (WEIGHTS,)
    if "vcs_info" in record:
        below = f"{record['subdirectory']}/{_WEIGHTS_FOLDER}" if record.get("subdirectory") else _WEIGHTS_FOLDER
        return (f"{WEIGHTS} @ {_address({**record, 'subdirectory': below})}",)
    return (WEIGHTS,)


def _published() -> str:
    """Return the name by which this user knows perdure: the whole, or the code alone."""
    from importlib.metadata import PackageNotFoundError, distribution  # only errors need it

    try:
        return distribution(WHOLE).metadata["Name"] or WHOLE
    except PackageNotFoundError:
        return CODE


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
