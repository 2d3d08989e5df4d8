"""Fetches a cross-encoder from the Hugging Face hub: the only code of `cross_encoder` that uses the network."""

from __future__ import annotations

import hashlib
import http.client
import re
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, urlsplit

from pydantic import BaseModel, Field, ValidationError

from perdure.backends.rerankers._cross_encoder_files import CONFIG, GRAPHS, NAME, TOKENIZER
from perdure.domain.errors import ConfigError, RerankerError

T = TypeVar("T")

HUB = "https://huggingface.co"
ATTEMPTS = 5
BLOCK = 1 << 18

Progress = Callable[[str, int, int], None]
"""Called with the file's name, the bytes of it that are there, and its size."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a repository as it must arrive: its digest is the one that the hub keeps of it."""

    name: str
    size: int
    digest: str
    large: bool
    """Whether the digest is SHA-256 of the content (git LFS), not git's SHA-1 of a blob."""

    def is_whole(self, place: Path) -> bool:
        """Whether the file at that place is this one."""
        if not place.is_file() or place.stat().st_size != self.size:
            return False
        digest = hashlib.sha256() if self.large else hashlib.sha1(b"blob %d\0" % self.size, usedforsecurity=False)
        with place.open("rb") as stream:
            while block := stream.read(BLOCK):
                digest.update(block)
        return digest.hexdigest() == self.digest


class _Large(BaseModel):
    sha256: str


class _Sibling(BaseModel):
    name: str = Field(alias="rfilename")
    size: int = Field(ge=0)
    blob: str = Field(alias="blobId")
    lfs: _Large | None = None


class _Repository(BaseModel):
    commit: str = Field(alias="sha", pattern="^[0-9a-f]{40}$")
    siblings: list[_Sibling]


def download(
    model: str, target: Path, progress: Progress | None = None, *, base_url: str = HUB, timeout: float = 30.0
) -> Path:
    """Fill the folder `target` with the model of that name and return it; whole files are not fetched again.

    The hub is asked once what the repository holds: its commit, and size and digest of every file. A broken connection
    is taken up where it broke, and a file takes its name only when size and digest are right, so that `target` never
    holds half a file. `timeout` is in seconds, without an answer. RerankerError (code `download_failed`) without
    network, for a repository without a cross-encoder and for wrong content; ConfigError for a `model` that is no name,
    a `base_url` that is no http address or a folder that cannot be written.
    """
    if not re.fullmatch(NAME, model):
        raise ConfigError(f"model must be a name such as owner/name, not {model!r}", field="model", value=model)
    if urlsplit(base_url).scheme not in ("http", "https"):
        raise ConfigError(
            f"base_url must be an http or https address, not {base_url!r}", field="base_url", value=base_url
        )
    hub = base_url.rstrip("/")
    repository = _listing(f"{hub}/api/models/{quote(model)}/revision/main?blobs=true", model, timeout)
    report = progress or (lambda name, done, size: None)
    for file in _wanted(repository, model):
        place = target / file.name
        if file.is_whole(place):
            report(file.name, file.size, file.size)
            continue
        url = f"{hub}/{quote(model)}/resolve/{repository.commit}/{file.name}"
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            _fetch_whole(url, place, file, report, timeout)
        except OSError as error:
            raise ConfigError(f"{target} cannot be written: {error}", field="target", value=str(target)) from error
    return target


def _wanted(repository: _Repository, model: str) -> Iterator[RemoteFile]:
    """The files that make the cross-encoder, the smallest first; the weights beside a graph over 2 GB included."""
    found = {sibling.name: sibling for sibling in repository.siblings}
    graph = next((name for name in GRAPHS if name in found), None)
    if graph is None or TOKENIZER not in found:
        raise _failure(f"{model} holds no {TOKENIZER} with {' or '.join(GRAPHS)}")
    for name in (CONFIG, TOKENIZER, f"{graph}_data", graph):
        if sibling := found.get(name):
            digest = sibling.lfs.sha256 if sibling.lfs else sibling.blob
            yield RemoteFile(name, sibling.size, digest, large=sibling.lfs is not None)


def _listing(url: str, model: str, timeout: float) -> _Repository:
    def ask() -> bytes:
        with _open(urllib.request.Request(url), url, timeout) as response:  # noqa: S310 - download() checks the scheme
            try:
                return response.read()
            except OSError as error:
                raise _ConnectionLost(str(error)) from error

    content = _persistently(ask, url)
    try:
        return _Repository.model_validate_json(content)
    except ValidationError as error:
        raise _failure(f"what {url} sent does not list the files of {model}") from error


def _fetch_whole(url: str, place: Path, file: RemoteFile, report: Progress, timeout: float) -> None:
    """Fetch into a temporary file beside the place, check it, and give it its name."""
    with tempfile.NamedTemporaryFile(prefix=f".{place.name}.", dir=place.parent, delete=False) as stream:
        part = Path(stream.name)
    try:
        _persistently(lambda: _fetch(url, part, file, report, timeout), url)
        if not file.is_whole(part):
            raise _failure(f"what {url} sent is not the published {file.name} ({file.size} bytes, {file.digest})")
        part.chmod(0o644)  # temporary files are private
        part.replace(place)
    finally:
        part.unlink(missing_ok=True)


class _ConnectionLost(Exception):
    """The transfer broke off, or the server could not be reached or is overloaded: worth another attempt."""


def _persistently(call: Callable[[], T], url: str) -> T:
    """What the call gives, tried again while the connection is at fault."""
    for attempt in range(ATTEMPTS):
        try:
            return call()
        except (http.client.HTTPException, _ConnectionLost) as error:
            problem: Exception = error
            if attempt < ATTEMPTS - 1:
                time.sleep(min(2.0, 0.1 * 2**attempt))
    raise _failure(_unfetched(url, problem)) from problem


def _fetch(url: str, part: Path, file: RemoteFile, report: Progress, timeout: float) -> None:
    """Append to the part what it lacks; a server that cannot continue sends the file from its beginning."""
    have = part.stat().st_size
    request = urllib.request.Request(url)  # noqa: S310 - download() checks the scheme
    if have:
        request.add_header("Range", f"bytes={have}-")
    with _open(request, url, timeout) as response, part.open("ab") as stream:
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
    request.add_header("User-Agent", "perdure")
    try:
        response: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=timeout)  # noqa: S310 - as above
    except urllib.error.HTTPError as error:
        with error:
            if error.code == http.HTTPStatus.TOO_MANY_REQUESTS or error.code >= http.HTTPStatus.INTERNAL_SERVER_ERROR:
                raise _ConnectionLost(str(error)) from error
            raise _failure(_unfetched(url, error)) from error
    except OSError as error:
        raise _ConnectionLost(str(error)) from error
    return response


def _unfetched(url: str, error: Exception) -> str:
    return f"{url} could not be fetched: {error}. Or set reranker.config.path to a folder that holds the model"


def _failure(what: str) -> RerankerError:
    return RerankerError(what, code="download_failed")
