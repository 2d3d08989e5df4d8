"""Downloads that resume after a broken connection, and the cache folder; a complete file gets its name."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from perdure.domain.errors import ConfigError

if TYPE_CHECKING:
    import http.client
    import urllib.request


def user_cache_dir() -> Path | None:
    """Return perdure's cache folder on this platform; None for a user without a home."""
    try:
        if sys.platform == "win32":
            return Path(os.environ.get("LOCALAPPDATA") or Path("~/AppData/Local").expanduser()) / "perdure"
        if sys.platform == "darwin":
            return Path("~/Library/Caches/perdure").expanduser()
        return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "perdure"
    except RuntimeError:
        return None


T = TypeVar("T")
ATTEMPTS = 5
BLOCK = 1 << 18
Progress = Callable[[str, int, int], None]  # called with the file's name, the bytes of it that are there, and its size


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """An expected file of a Hugging Face repository.

    The digest is SHA-256 of the content if it is `large` (git LFS), else git's SHA-1 of a blob.
    """

    name: str
    size: int
    digest: str
    large: bool = True

    def is_whole(self, place: Path) -> bool:
        """Whether the file at that path is complete and correct."""
        if not place.is_file() or place.stat().st_size != self.size:
            return False
        digest = hashlib.sha256() if self.large else hashlib.sha1(b"blob %d\0" % self.size, usedforsecurity=False)
        with place.open("rb") as stream:
            while block := stream.read(BLOCK):
                digest.update(block)
        return digest.hexdigest() == self.digest


class DownloadError(Exception):
    """A download failed; the message gives the reason without the address."""


class _ConnectionLost(Exception):
    """The transfer broke off, or the server is unreachable or overloaded: worth another attempt."""


def check_address(base_url: str) -> str:
    """Return the address without a trailing slash; ConfigError if it is not an HTTP address."""
    if urlsplit(base_url).scheme not in ("http", "https"):
        raise ConfigError(
            f"base_url must be an http or https address, not {base_url!r}", field="base_url", value=base_url
        )
    return base_url.rstrip("/")


def fetch_text(url: str, timeout: float) -> bytes:
    """Return the whole response; DownloadError after the last attempt, or if the server refuses."""

    def ask() -> bytes:
        with _open(_request(url), timeout) as response:
            try:
                return response.read()
            except OSError as error:
                raise _ConnectionLost(str(error)) from error

    return _persistently(ask)


def fetch_files(
    target: Path,
    files: Iterable[tuple[str, RemoteFile]],
    progress: Progress | None,
    timeout: float,
    *,
    failure: Callable[[str], Exception],
    advice: str,
) -> Path:
    """Download files into a folder, each from its address; complete files are not downloaded again.

    An interrupted download resumes, and a file gets its name once size and digest are right. Raises `failure` with
    advice if a file is unavailable, and ConfigError if the folder cannot be written.
    """
    report = progress or (lambda name, done, size: None)
    for url, file in files:
        place = target / file.name
        if file.is_whole(place):
            report(file.name, file.size, file.size)
            continue
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            is_whole = fetch_file(url, place, file, report, timeout)
        except DownloadError as error:
            raise failure(f"{url} could not be fetched: {error}{advice}") from error
        except OSError as error:
            raise ConfigError(f"{target} cannot be written: {error}", field="target", value=str(target)) from error
        if not is_whole:
            raise failure(f"what {url} sent is not the published {file.name} ({file.size} bytes, {file.digest})")
    return target


def fetch_file(url: str, place: Path, file: RemoteFile, report: Progress, timeout: float) -> bool:
    """Download one file and give it its name; False if the content is wrong.

    DownloadError after the last attempt, or if the server refuses; OSError if the folder cannot be written.
    """
    with tempfile.NamedTemporaryFile(prefix=f".{place.name}.", dir=place.parent, delete=False) as stream:
        part = Path(stream.name)
    try:
        _persistently(lambda: _continue(url, part, file, report, timeout))
        if not file.is_whole(part):
            return False
        part.chmod(0o644)  # temporary files are private
        part.replace(place)
        return True
    finally:
        part.unlink(missing_ok=True)


def _persistently(call: Callable[[], T]) -> T:
    """Return the result of a call, retried while the connection fails."""
    import http.client  # here and below: who asks for the cache folder downloads nothing

    for attempt in range(ATTEMPTS):
        try:
            return call()
        except (http.client.HTTPException, _ConnectionLost) as error:
            problem: Exception = error
            if attempt < ATTEMPTS - 1:
                time.sleep(min(2.0, 0.1 * 2**attempt))
    raise DownloadError(str(problem)) from problem


def _continue(url: str, part: Path, file: RemoteFile, report: Progress, timeout: float) -> None:
    """Append the rest of a partial file; a server that cannot continue sends it from the beginning."""
    from http import HTTPStatus

    have = part.stat().st_size
    request = _request(url)
    if have:
        request.add_header("Range", f"bytes={have}-")
    with _open(request, timeout) as response, part.open("ab") as stream:
        if have and response.status != HTTPStatus.PARTIAL_CONTENT:
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


def _request(url: str) -> urllib.request.Request:
    import urllib.request

    return urllib.request.Request(url, headers={"User-Agent": "perdure"})  # noqa: S310 - check_address saw the scheme


def _open(request: urllib.request.Request, timeout: float) -> http.client.HTTPResponse:
    import urllib.error
    import urllib.request
    from http import HTTPStatus

    try:
        response: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=timeout)  # noqa: S310 - of `_request`
    except urllib.error.HTTPError as error:
        with error:
            if error.code == HTTPStatus.TOO_MANY_REQUESTS or error.code >= HTTPStatus.INTERNAL_SERVER_ERROR:
                raise _ConnectionLost(str(error)) from error
            raise DownloadError(str(error)) from error
    except OSError as error:
        raise _ConnectionLost(str(error)) from error
    return response
