"""Fetches a cross-encoder from the Hugging Face hub: the only code of `cross_encoder` that uses the network."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from pydantic import BaseModel, Field, ValidationError

from perdure.backends.rerankers._cross_encoder_files import CONFIG, GRAPHS, NAME, TOKENIZER
from perdure.backends.resumed_download import BLOCK, NotFetched, Progress, check_address, fetch_file, fetch_text
from perdure.domain.errors import ConfigError, RerankerError

__all__ = ["HUB", "Progress", "download"]

HUB = "https://huggingface.co"


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
    hub = check_address(base_url)
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
            is_whole = fetch_file(url, place, file, report, timeout)
        except NotFetched as error:
            raise _failure(_unfetched(url, error)) from error
        except OSError as error:
            raise ConfigError(f"{target} cannot be written: {error}", field="target", value=str(target)) from error
        if not is_whole:
            raise _failure(f"what {url} sent is not the published {file.name} ({file.size} bytes, {file.digest})")
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
    try:
        content = fetch_text(url, timeout)
    except NotFetched as error:
        raise _failure(_unfetched(url, error)) from error
    try:
        return _Repository.model_validate_json(content)
    except ValidationError as error:
        raise _failure(f"what {url} sent does not list the files of {model}") from error


def _unfetched(url: str, error: Exception) -> str:
    return f"{url} could not be fetched: {error}. Or set reranker.config.path to a folder that holds the model"


def _failure(what: str) -> RerankerError:
    return RerankerError(what, code="download_failed")
