"""The download of minilm's weights, against a local server that can be slow to finish, wrong, or gone."""

from __future__ import annotations

import hashlib
import re
import runpy
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from perdure.backends.embedders import minilm
from perdure.backends.embedders.minilm import (
    FILES,
    HALVED_SHA256,
    PUBLISHED_SHA256,
    REPOSITORY,
    REVISION,
    MiniLMEmbedder,
    RemoteFile,
    download,
    find_model,
)
from perdure.backends.extras import weights_line
from perdure.backends.http import resumed_download
from perdure.domain.errors import ConfigError, EmbeddingError

CONTENT = {"tokenizer.json": b"{}" * 700, "model.safetensors": bytes(range(256)) * 4_000}


class Hub:
    """A server of the files; `cut` breaks a transfer after so many bytes, `status` refuses, `ranges` can be off."""

    def __init__(self) -> None:
        self.content = dict(CONTENT)
        self.requests: list[tuple[str, str | None]] = []
        self.cut: list[int] = []
        self.status: list[int] = []
        self.ranges = True
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                hub.answer(self)

            def log_message(self, *arguments: Any) -> None:
                """Stay silent."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        wanted = handler.headers.get("Range")
        self.requests.append((handler.path, wanted))
        name = handler.path.rsplit("/", 1)[-1]
        status = self.status.pop(0) if self.status else 200
        if status != 200 or name not in self.content:
            handler.send_error(status if status != 200 else 404)
            return
        body = self.content[name]
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.ranges else 0
        handler.send_response(206 if start else 200)
        handler.send_header("Content-Length", str(len(body) - start))
        handler.end_headers()
        handler.wfile.write(body[start : start + self.cut.pop(0)] if self.cut else body[start:])

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr(resumed_download.time, "sleep", lambda seconds: None)
    running = Hub()
    yield running
    running.close()


def remote(name: str) -> RemoteFile:
    return RemoteFile(name, len(CONTENT[name]), hashlib.sha256(CONTENT[name]).hexdigest())


ALL = tuple(map(remote, CONTENT))


def test_every_file_arrives_whole_under_its_name(hub: Hub, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    target = tmp_path / "new" / "model"
    assert download(target, lambda *step: seen.append(step), base_url=hub.url, files=ALL) == target
    assert {path.name: path.read_bytes() for path in target.iterdir()} == CONTENT
    assert [path for path, _ in hub.requests] == [f"/{REPOSITORY}/resolve/{REVISION}/{name}" for name in CONTENT]
    for name, content in CONTENT.items():
        steps = [done for file, done, total in seen if file == name and total == len(content)]
        assert steps == sorted(steps)
        assert steps[-1] == len(content)
    assert find_model(target, None) is not None


def test_what_is_there_already_is_not_fetched_again(hub: Hub, tmp_path: Path) -> None:
    download(tmp_path, base_url=hub.url, files=ALL)
    hub.requests.clear()
    (tmp_path / "tokenizer.json").write_bytes(b"damaged")
    seen: list[tuple[str, int, int]] = []
    download(tmp_path, lambda *step: seen.append(step), base_url=hub.url, files=ALL)
    assert [path.rsplit("/", 1)[-1] for path, _ in hub.requests] == ["tokenizer.json"]
    assert (tmp_path / "tokenizer.json").read_bytes() == CONTENT["tokenizer.json"]
    assert seen[-1] == ("model.safetensors", len(CONTENT["model.safetensors"]), len(CONTENT["model.safetensors"]))


@pytest.mark.parametrize("ranges", [True, False])
def test_a_broken_transfer_is_taken_up_where_it_broke(hub: Hub, tmp_path: Path, ranges: bool) -> None:
    hub.ranges = ranges
    hub.cut = [100_000, 300_000]
    download(tmp_path, base_url=hub.url, files=(remote("model.safetensors"),))
    assert (tmp_path / "model.safetensors").read_bytes() == CONTENT["model.safetensors"]
    assert hub.requests[0][1] is None
    assert [wanted for _, wanted in hub.requests[1:]] == (
        ["bytes=100000-", "bytes=400000-"] if ranges else ["bytes=100000-", "bytes=300000-"]
    )


def test_an_overloaded_server_is_asked_again(hub: Hub, tmp_path: Path) -> None:
    hub.status = [503, 429]
    download(tmp_path, base_url=hub.url, files=ALL)
    assert len(hub.requests) == 4


def test_a_server_that_keeps_breaking_off_is_given_up(hub: Hub, tmp_path: Path) -> None:
    hub.cut = [10] * 20
    with pytest.raises(EmbeddingError, match=r"ended after 50 of 1024000 bytes") as caught:
        download(tmp_path, base_url=hub.url, files=(remote("model.safetensors"),))
    assert caught.value.code == "download_failed"
    assert list(tmp_path.iterdir()) == [], "no half file stays"


@pytest.mark.parametrize("extra", [b"", b"!"])
def test_wrong_content_never_takes_the_name(hub: Hub, tmp_path: Path, extra: bytes) -> None:
    hub.content["tokenizer.json"] = b"x" * len(CONTENT["tokenizer.json"]) + extra
    with pytest.raises(EmbeddingError, match="not the published tokenizer"):
        download(tmp_path, base_url=hub.url, files=ALL)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_file_is_not_asked_for_twice(hub: Hub, tmp_path: Path) -> None:
    del hub.content["tokenizer.json"]
    with pytest.raises(EmbeddingError, match="404"):
        download(tmp_path, base_url=hub.url, files=ALL)
    assert len(hub.requests) == 1


def test_without_a_network_the_error_says_what_else_can_be_done(hub: Hub, tmp_path: Path) -> None:
    hub.close()
    with pytest.raises(EmbeddingError, match=rf"{re.escape(weights_line())}.*embedder\.config\.path"):
        download(tmp_path, base_url=hub.url, files=ALL)


@pytest.mark.parametrize("address", ["file:///etc", "ftp://host", "host", ""])
def test_only_http_addresses_are_taken(tmp_path: Path, address: str) -> None:
    with pytest.raises(ConfigError, match="base_url"):
        download(tmp_path, base_url=address)


def test_a_folder_that_cannot_be_written_is_named(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written") as caught:
        download(tmp_path / "file" / "model", base_url=hub.url, files=ALL)
    assert caught.value.field == "target"


def test_by_default_it_fills_the_folder_where_minilm_looks(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(minilm.download, "__kwdefaults__", {**download.__kwdefaults__, "files": ALL})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("perdure.backends.http.resumed_download.sys.platform", "linux")
    monkeypatch.setattr("perdure.backends.embedders.minilm.WEIGHTS_PACKAGE", "no_such_package")
    embedder = MiniLMEmbedder(MiniLMEmbedder.Settings())
    assert embedder.unavailable() is not None
    folder = MiniLMEmbedder.download(base_url=hub.url)
    assert folder == tmp_path / "perdure" / "all-MiniLM-L6-v2"
    assert embedder.unavailable() is None


def test_what_is_fetched_by_default_is_what_the_weights_package_is_made_of() -> None:
    found = find_model(None, None)
    if found is None:
        pytest.skip("the weights package perdure-minilm is not installed")
    script = runpy.run_path(str(Path(__file__).parents[3] / "packages" / "minilm" / "hatch_build.py"))
    fetched = {file.name: file.digest for file in FILES}
    assert script["TAKEN"] == {name: fetched[name] for name in script["TAKEN"]}
    assert script["TAKEN"]["model.safetensors"] == PUBLISHED_SHA256
    assert script["MADE"]["model.safetensors"] == HALVED_SHA256
    for name, digest in script["MADE"].items():
        assert hashlib.sha256((found.weights.parent / name).read_bytes()).hexdigest() == digest
