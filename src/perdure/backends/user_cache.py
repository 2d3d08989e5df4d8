"""Where a user's caches lie."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def user_cache_dir() -> Path | None:
    """The platform's folder for what can be made again; None for a user without a home."""
    try:
        if sys.platform == "win32":
            return Path(os.environ.get("LOCALAPPDATA") or Path("~/AppData/Local").expanduser()) / "perdure"
        if sys.platform == "darwin":
            return Path("~/Library/Caches/perdure").expanduser()
        return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "perdure"
    except RuntimeError:
        return None
