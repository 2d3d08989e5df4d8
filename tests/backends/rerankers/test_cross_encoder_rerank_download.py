"""The download of a cross-encoder, against a local hub that can break off, lie, or be gone."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from perdure.backends.http import resumed_download
from perdure.backends.registry import build
from perdure.backends.rerankers.cross_encoder import DEFAULT, CrossEncoderReranker, download
from perdure.domain.errors import ConfigError, RerankerError
from tests.backends.rerankers.rerank_folders import by_hand, tiny_graph, tiny_tokenizer
from tests.backends.wire.server import Reply

pytestmark = pytest.mark.covers("A15")

COMMIT = "0123456789abcdef0123456789abcdef01234567"
GRAPH = "onnx/model.onnx"


def sibling(name: str, content: bytes, large: bool) -> dict[str, Any]:
    """A file as the hub lists it: git's digest of the content, or of the pointer beside the content's SHA-256."""
    if not large:
        blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        return {"rfilename": name, "size": len(content), "blobId": blob}
    lfs = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
    return {"rfilename": name, "size": len(content), "blobId": "f" * 40, "lfs": lfs}


class Hub:
    """A server of one repository. `cut` breaks transfers after so many bytes, `status` refuses, `ranges` can be off."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {
            "README.md": b"# a model",
            "config.json": b'{"pad_token_id": 0}',
            "tokenizer.json": tiny_tokenizer().encode(),
            GRAPH: tiny_graph(),
            "onnx/model_quantized.onnx": b"another",
        }
        self.sent = self.content
        self.listing: dict[str, Any] | None = None
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
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()

    @property
    def files(self) -> list[str]:
        """The files that were asked for, in order."""
        return [path.partition(f"/resolve/{COMMIT}/")[2] for path, _ in self.requests if "/resolve/" in path]

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        wanted = handler.headers.get("Range")
        self.requests.append((handler.path, wanted))
        status = self.status.pop(0) if self.status else 200
        body = self.body(handler.path)
        if status != 200 or body is None:
            handler.send_error(status if status != 200 else 404)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.ranges else 0
        handler.send_response(206 if start else 200)
        handler.send_header("Content-Length", str(len(body) - start))
        handler.end_headers()
        cut = self.cut.pop(0) if self.cut and "/resolve/" in handler.path else len(body)
        handler.wfile.write(body[start : start + cut])

    def body(self, path: str) -> bytes | None:
        if path == f"/api/models/{DEFAULT}/revision/main?blobs=true":
            listed = [sibling(name, content, name == GRAPH) for name, content in self.content.items()]
            return Reply.of(self.listing or {"id": DEFAULT, "sha": COMMIT, "siblings": listed}).body
        repository, _, name = path.partition(f"/resolve/{COMMIT}/")
        return self.sent.get(name) if repository == f"/{DEFAULT}" else None

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


def fetch(hub: Hub, target: Path, **more: Any) -> Path:
    return download(DEFAULT, target, base_url=hub.url, **more)


def content(folder: Path) -> dict[str, bytes]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


WANTED = ("config.json", "tokenizer.json", GRAPH)


@pytest.mark.covers("A15")
def test_what_arrives_is_the_graph_its_tokenizer_and_its_config(hub: Hub, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    target = tmp_path / "new" / "model"
    assert download(DEFAULT, target, lambda *step: seen.append(step), base_url=f"{hub.url}/") == target
    assert content(target) == {name: hub.content[name] for name in WANTED}
    assert hub.files == list(WANTED), "one commit's files, and no other graph"
    for name in WANTED:
        size = len(hub.content[name])
        steps = [done for file, done, total in seen if file == name and total == size]
        assert steps == sorted(steps)
        assert steps[-1] == size


def test_what_arrived_scores(hub: Hub, tmp_path: Path) -> None:
    reranker = build("rerankers", "cross_encoder", {"path": fetch(hub, tmp_path)})
    assert asyncio.run(reranker.rerank("tea", ["user likes tea"])) == [by_hand("tea", "user likes tea")]


@pytest.mark.covers("A15")
@pytest.mark.parametrize("place", ["model.onnx", "onnx/model_quantized.onnx"])
def test_a_repository_without_the_first_graph_gives_the_next(hub: Hub, tmp_path: Path, place: str) -> None:
    hub.content[place] = hub.content.pop(GRAPH)
    fetch(hub, tmp_path)
    assert hub.files[-1] == place
    assert build("rerankers", "cross_encoder", {"path": tmp_path}).unavailable() is None


def test_weights_beside_the_graph_come_with_it_and_a_missing_config_is_done_without(hub: Hub, tmp_path: Path) -> None:
    hub.content[f"{GRAPH}_data"] = b"weights"
    del hub.content["config.json"]
    fetch(hub, tmp_path)
    assert hub.files == ["tokenizer.json", f"{GRAPH}_data", GRAPH], "the graph comes last: with it, all is there"


def test_what_is_there_already_is_not_fetched_again(hub: Hub, tmp_path: Path) -> None:
    fetch(hub, tmp_path)
    hub.requests.clear()
    (tmp_path / "tokenizer.json").write_bytes(b"x" * len(hub.content["tokenizer.json"]))
    seen: list[tuple[str, int, int]] = []
    fetch(hub, tmp_path, progress=lambda *step: seen.append(step))
    assert hub.files == ["tokenizer.json"]
    assert content(tmp_path)["tokenizer.json"] == hub.content["tokenizer.json"]
    assert seen[-1] == (GRAPH, len(hub.content[GRAPH]), len(hub.content[GRAPH]))


@pytest.mark.parametrize("ranges", [True, False])
def test_a_broken_transfer_is_taken_up_where_it_broke(hub: Hub, tmp_path: Path, ranges: bool) -> None:
    hub.content = hub.sent = {"tokenizer.json": b"{}" * 300, GRAPH: bytes(range(256)) * 4_000}
    hub.ranges = ranges
    hub.cut = [600, 100_000, 300_000]
    fetch(hub, tmp_path)
    assert content(tmp_path) == hub.content
    asked = [wanted for path, wanted in hub.requests if path.endswith(GRAPH)]
    assert asked == [None, "bytes=100000-", "bytes=400000-" if ranges else "bytes=300000-"]


@pytest.mark.parametrize("status", [[503, 429], [200, 500, 502]])
def test_an_overloaded_hub_is_asked_again(hub: Hub, tmp_path: Path, status: list[int]) -> None:
    hub.status = status
    fetch(hub, tmp_path)
    assert set(content(tmp_path)) == set(WANTED)


def fails(hub: Hub, target: Path, match: str) -> None:
    with pytest.raises(RerankerError, match=match) as caught:
        fetch(hub, target)
    assert caught.value.code == "download_failed"


def test_a_hub_that_keeps_breaking_off_is_given_up(hub: Hub, tmp_path: Path) -> None:
    hub.cut = [1] * 20
    fails(hub, tmp_path, "ended after 5 of 19 bytes")
    assert content(tmp_path) == {}, "no half file stays"


@pytest.mark.parametrize("name", ["tokenizer.json", GRAPH])
@pytest.mark.parametrize("extra", [b"", b"!"])
def test_wrong_content_never_takes_the_name(hub: Hub, tmp_path: Path, name: str, extra: bytes) -> None:
    hub.sent = {**hub.content, name: b"x" * len(hub.content[name]) + extra}
    fails(hub, tmp_path, f"is not the published {name}")
    assert name not in content(tmp_path)
    assert set(content(tmp_path)) < set(WANTED), "nor any other"


@pytest.mark.parametrize("missing", ["tokenizer.json", GRAPH])
def test_a_repository_without_a_cross_encoder_is_an_error(hub: Hub, tmp_path: Path, missing: str) -> None:
    hub.content = {
        name: each for name, each in hub.content.items() if name not in (missing, "onnx/model_quantized.onnx")
    }
    fails(hub, tmp_path, r"holds no tokenizer\.json with onnx/model\.onnx or")
    assert hub.files == []


@pytest.mark.parametrize(
    "listing",
    [
        {"sha": "main", "siblings": []},
        {"sha": COMMIT},
        {"sha": COMMIT, "siblings": [{"rfilename": "tokenizer.json"}]},
        {"sha": COMMIT, "siblings": [{"rfilename": "tokenizer.json", "size": -1, "blobId": "a"}]},
        ["nothing"],
    ],
)
def test_a_list_of_files_that_cannot_be_read_is_an_error(hub: Hub, tmp_path: Path, listing: Any) -> None:
    hub.listing = listing
    fails(hub, tmp_path, f"does not list the files of {DEFAULT}")


def test_a_repository_that_is_not_there_is_asked_for_once(hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(RerankerError, match="404"):
        download("nobody/nothing", tmp_path, base_url=hub.url)
    assert len(hub.requests) == 1


def test_without_a_network_the_error_says_what_else_can_be_done(hub: Hub, tmp_path: Path) -> None:
    hub.close()
    fails(hub, tmp_path, r"could not be fetched: .*reranker\.config\.path")


@pytest.mark.parametrize("address", ["file:///etc", "ftp://host", "host", ""])
def test_only_http_addresses_are_taken(tmp_path: Path, address: str) -> None:
    with pytest.raises(ConfigError, match="base_url"):
        download(DEFAULT, tmp_path, base_url=address)


@pytest.mark.parametrize("model", ["../../etc", "a/..", "a/b/c", "", "a b"])
def test_a_model_that_is_no_name_is_refused(model: str) -> None:
    with pytest.raises(ConfigError, match="model must be a name") as caught:
        CrossEncoderReranker.download(model=model)
    assert (caught.value.field, caught.value.value) == ("model", model)


def test_a_folder_that_cannot_be_written_is_named(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written") as caught:
        fetch(hub, tmp_path / "file" / "model")
    assert caught.value.field == "target"


def test_by_default_it_fills_the_folder_where_cross_encoder_looks(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("perdure.backends.http.resumed_download.sys.platform", "linux")
    reranker = build("rerankers", "cross_encoder", {})
    assert reranker.unavailable() is not None
    assert CrossEncoderReranker.download(base_url=hub.url) == tmp_path / "perdure" / "rerankers" / DEFAULT
    assert reranker.unavailable() is None


def test_a_cache_of_ones_own_is_filled_where_its_setting_makes_it_look(hub: Hub, tmp_path: Path) -> None:
    reranker = build("rerankers", "cross_encoder", {"cache_dir": str(tmp_path)})
    CrossEncoderReranker.download(base_url=hub.url, cache_dir=tmp_path)
    assert reranker.unavailable() is None
