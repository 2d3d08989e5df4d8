"""minilm: the published model's vectors, found, built once, cached, downloaded, and missing with a reason."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.backends.embedders import minilm
from perdure.backends.embedders import minilm as minilm_module
from perdure.backends.embedders.minilm import (
    HALVED_SHA256,
    MAX_TOKENS,
    MiniLMEmbedder,
    ModelFiles,
    build_graph,
    find_model,
    fingerprint,
    read_weights,
)
from perdure.backends.extras import extra_line, weights_line
from perdure.backends.http import resumed_download
from perdure.backends.shared import onnx as onnx_module
from perdure.domain.errors import DependencyError, EmbeddingError
from tests.backends.embedders.minilm_numpy import forward

REFERENCE = "PERDURE_MINILM_REFERENCE"
"""Environment variable: a JSON file of texts with the vectors that sentence-transformers gave them."""

OWN_SENTENCES = [
    "User keeps bees on the roof of the town hall",
    "what did the vet say about the limp?",
    "",
    "Ünïcödé, naïve façades & 3½ cups of flour",
    "SELECT name FROM pets WHERE owner = 'Ilse' -- two rows",
    "她每天早上骑自行车上班",
    "ok",
    "The ferry to the island leaves at noon, unless the wind is too strong, in which case it waits. " * 30,
]


@pytest.fixture(scope="module")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("minilm")


@pytest.fixture(scope="module")
def files() -> ModelFiles:
    found = find_model(None, None)
    if found is None or found.is_graph:
        pytest.skip("the weights package perdure-minilm is not installed")
    return found


@pytest.fixture(scope="module")
def embedder(files: ModelFiles, cache_dir: Path) -> MiniLMEmbedder:
    return make(cache_dir=cache_dir)


def make(**config: Any) -> MiniLMEmbedder:
    return MiniLMEmbedder(MiniLMEmbedder.Settings(**config))


def embed(embedder: MiniLMEmbedder, *texts: str) -> np.ndarray:
    return asyncio.run(embedder.embed_batch(texts))


def kinds_of_files(folder: Path) -> list[str]:
    return sorted(file.suffix for file in folder.iterdir())


def copy_model(files: ModelFiles, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for file in (files.weights, files.tokenizer):
        (folder / file.name).symlink_to(file)
    return folder


# ---------------------------------------------------------------------------------------------------- parity
def test_the_vectors_are_those_of_the_published_model(embedder: MiniLMEmbedder) -> None:
    if not os.environ.get(REFERENCE):
        pytest.skip(f"{REFERENCE} does not name the file of reference vectors")
    items = json.loads(Path(os.environ[REFERENCE]).read_text(encoding="utf-8"))["items"]
    expected = np.array([item["vector"] for item in items])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    cosines = (embed(embedder, *(item["text"] for item in items)) * expected).sum(axis=1)
    assert cosines.min() >= 0.9999


def test_the_vectors_are_those_of_a_forward_pass_in_numpy(embedder: MiniLMEmbedder, files: ModelFiles) -> None:
    expected = forward(files, OWN_SENTENCES)
    got = embed(embedder, *OWN_SENTENCES)
    assert (got * expected).sum(axis=1).min() >= 0.999999
    assert np.abs(got - expected).max() < 1e-4


def test_the_vectors_are_the_recorded_ones(embedder: MiniLMEmbedder) -> None:
    recorded = np.load(Path(__file__).with_name("minilm_vectors.npy"))
    assert recorded.shape == (len(OWN_SENTENCES), 384)
    assert (embed(embedder, *OWN_SENTENCES) * recorded).sum(axis=1).min() >= 0.9999


def test_a_text_is_read_up_to_its_256th_token_and_no_further(embedder: MiniLMEmbedder) -> None:
    words = ["river", "budget", "camera", "winter"] * 100
    whole, cut, shorter = embed(embedder, " ".join(words), " ".join(words[:254]), " ".join(words[:253]))
    assert np.allclose(whole, cut, atol=1e-5)
    assert not np.allclose(whole, shorter, atol=1e-4)


@pytest.mark.parametrize(
    "unit", ["river budget ", "我喜欢", "a" * 150 + " ", "!?", " \n", "naïve-façade,", "e\u0301", "9" * 99, "\u200d"]
)
def test_a_huge_text_is_read_from_its_beginning_as_if_it_were_tokenized_whole(files: ModelFiles, unit: str) -> None:
    from tokenizers import Tokenizer

    plain = Tokenizer.from_file(str(files.tokenizer))
    plain.no_padding()
    plain.no_truncation()
    text = unit * (60_000 // len(unit))
    ids = plain.encode(text).ids
    expected = ids if len(ids) <= MAX_TOKENS else [*ids[: MAX_TOKENS - 1], ids[-1]]
    assert minilm._load_tokenizer(files.tokenizer)(text) == expected


@settings(max_examples=15, deadline=None)
@given(texts=st.lists(st.text(max_size=60), min_size=1, max_size=12))
def test_any_texts_in_any_company_give_finite_vectors_of_length_one(embedder: MiniLMEmbedder, texts: list[str]) -> None:
    vectors = embed(embedder, *texts)
    assert np.isfinite(vectors).all()
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


# ---------------------------------------------------------------------------------------------------- the cached graph
def test_the_graph_is_built_once_and_needs_no_other_package(files: ModelFiles, tmp_path: Path) -> None:
    model = copy_model(files, tmp_path / "model")
    cache = tmp_path / "cache"
    first = embed(make(path=model, cache_dir=cache), "User likes tea")[0]
    assert kinds_of_files(cache) == [".json", ".onnx"], "one graph, the weights' fingerprint, and nothing temporary"
    code = f"""
        import asyncio, sys
        sys.modules["onnx"] = sys.modules["safetensors"] = sys.modules["tokenizers"] = None
        from perdure.backends.registry import build
        embedder = build("embedders", "minilm", {{"path": {str(model)!r}, "cache_dir": {str(cache)!r}}})
        assert embedder.unavailable() is None, embedder.unavailable()
        print(*asyncio.run(embedder.embed("User likes tea")))
        assert not {{"torch", "perdure_minilm"}} & set(sys.modules)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], check=True, capture_output=True, text=True, timeout=120
    )
    assert np.allclose(np.array(done.stdout.split(), dtype=np.float32), first, atol=1e-6)


def test_a_damaged_graph_is_built_again(files: ModelFiles, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    graph = minilm.graph_file(files, tmp_path)
    graph.write_bytes(b"half a gra")
    with caplog.at_level(logging.WARNING, logger="perdure"):
        session = minilm._open_session(files, tmp_path, 1)
    assert "damaged" in caplog.text
    assert session.get_outputs()[0].name == "embedding"
    assert graph.stat().st_size > 80_000_000


# ------------------------------------------------------------------------------------------------ the kept fingerprint
@pytest.fixture
def old_file(tmp_path: Path) -> Path:
    """A file whose last change lies long enough back."""
    file = tmp_path / "weights"
    file.write_bytes(b"0123456789")
    age(file)
    return file


def age(file: Path) -> None:
    os.utime(file, ns=(1_600_000_000_000_000_000, 1_600_000_000_000_000_000))


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Notes when a file is read for its fingerprint; nothing is remembered within the process, and files count as old
    although their ctime is now."""
    monkeypatch.setattr(onnx_module, "_sha256", onnx_module._sha256.__wrapped__)
    monkeypatch.setattr(onnx_module, "SETTLED_NS", -(10**18))
    found: list[int] = []
    digest = hashlib.file_digest

    def noted(stream: Any, name: str) -> Any:
        found.append(1)
        return digest(stream, name)

    monkeypatch.setattr(onnx_module.hashlib, "file_digest", noted)
    return found


def test_the_fingerprint_is_kept_beside_the_graph_until_the_file_changes(
    old_file: Path, reads: list[int], tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    first = fingerprint(old_file, cache)
    assert first == hashlib.sha256(b"0123456789").hexdigest()
    assert [fingerprint(old_file, cache) for _ in range(3)] == [first] * 3
    assert len(reads) == 1
    old_file.write_bytes(b"987654321")
    age(old_file)
    assert fingerprint(old_file, cache) == hashlib.sha256(b"987654321").hexdigest(), "another size"
    old_file.write_bytes(b"123456789")
    os.utime(old_file, ns=(1, 1))
    assert fingerprint(old_file, cache) == hashlib.sha256(b"123456789").hexdigest(), "another time"
    old_file.write_bytes(b"ABCDEFGHI")
    os.utime(old_file, ns=(1, 1))
    assert fingerprint(old_file, cache) == hashlib.sha256(b"ABCDEFGHI").hexdigest(), "the same size and time, set back"
    assert len(reads) == 4
    assert len(list(cache.iterdir())) == 1


def test_fingerprints_of_two_files_do_not_displace_each_other(old_file: Path, reads: list[int], tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"ABCDEFGHIJ")
    age(other)
    cache = tmp_path / "cache"
    for _ in range(3):
        assert fingerprint(old_file, cache) != fingerprint(other, cache)
    assert len(reads) == 2


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"sha256": 3}', "\x00\xff"])
def test_a_damaged_record_is_made_again(old_file: Path, reads: list[int], tmp_path: Path, content: str) -> None:
    cache = tmp_path / "cache"
    first = fingerprint(old_file, cache)
    (record,) = cache.iterdir()
    record.write_text(content, encoding="latin-1")
    assert fingerprint(old_file, cache) == first
    assert fingerprint(old_file, cache) == first
    assert len(reads) == 2


def test_a_file_that_changed_just_now_is_read_again_next_time(
    old_file: Path, reads: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second change within a tick of the file system's clock would leave the same time."""
    monkeypatch.setattr(onnx_module, "SETTLED_NS", 2_000_000_000)
    fingerprint(old_file, tmp_path / "cache")
    assert not (tmp_path / "cache").exists()
    fingerprint(old_file, tmp_path / "cache")
    assert len(reads) == 2


def test_a_fingerprint_that_cannot_be_kept_is_found_each_time(old_file: Path, reads: list[int]) -> None:
    assert fingerprint(old_file, old_file / "no folder") == fingerprint(old_file)


def test_a_second_process_does_not_read_the_weights(files: ModelFiles, tmp_path: Path) -> None:
    code = f"""
        import asyncio, hashlib
        def refuse(*arguments):
            print("read")
            return digest(*arguments)
        digest, hashlib.file_digest = hashlib.file_digest, refuse
        from perdure.backends.registry import build
        asyncio.run(build("embedders", "minilm", {{"cache_dir": {str(tmp_path)!r}}}).embed("tea"))
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    runs = [subprocess.run(command, check=True, capture_output=True, text=True, timeout=120) for _ in range(2)]
    assert [run.stdout for run in runs] == ["read\n", ""]


def test_an_unwritable_cache_folder_is_no_obstacle(
    files: ModelFiles, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    with caplog.at_level(logging.WARNING, logger="perdure"):
        session = minilm._open_session(files, tmp_path / "file" / "cache", 1)
    assert "cannot be cached" in caplog.text
    assert session.get_outputs()[0].name == "embedding"


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(minilm.os, "fsync", full_disk)
    minilm._write_whole(tmp_path / "graph.onnx", b"content")
    assert list(tmp_path.iterdir()) == []


def test_processes_that_build_at_once_all_succeed(files: ModelFiles, tmp_path: Path) -> None:
    code = f"""
        import asyncio
        from perdure.backends.registry import build
        print(asyncio.run(build("embedders", "minilm", {{"cache_dir": {str(tmp_path)!r}}}).embed("tea"))[0])
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    results = {process.communicate(timeout=120)[0] for process in running}
    assert [process.returncode for process in running] == [0, 0, 0]
    assert len(results) == 1
    assert kinds_of_files(tmp_path) == [".json", ".onnx"]


def test_a_user_without_a_home_gets_no_cache_and_still_vectors(
    files: ModelFiles, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def no_home(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "expanduser", no_home)
    embedder = make()
    assert embedder._cache_dir is None
    assert embedder.unavailable() is None
    assert embed(embedder, "tea").shape == (1, 384)


def test_the_cache_lies_where_the_platform_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    monkeypatch.setenv("HOME", str(tmp_path))
    expected = {"linux": "xdg/perdure", "darwin": "Library/Caches/perdure", "win32": "local/perdure"}
    for platform, folder in expected.items():
        monkeypatch.setattr(resumed_download.sys, "platform", platform)
        assert resumed_download.user_cache_dir() == tmp_path / folder


# ------------------------------------------------------------------------------------------------ one model, many users
def test_embedders_of_the_same_files_share_one_loaded_model_and_close_lets_go(
    files: ModelFiles, cache_dir: Path
) -> None:
    path = copy_model(files, cache_dir / "shared")
    first, second = (make(path=path, cache_dir=cache_dir) for _ in range(2))
    embed(first, "tea"), embed(second, "tea")
    assert first._encoder is second._encoder
    assert make(path=path, cache_dir=cache_dir, threads=2)._load() is not first._encoder
    asyncio.run(first.close())
    assert first._encoder is None
    assert embed(second, "tea").shape == (1, 384)
    assert embed(first, "tea").shape == (1, 384), "a closed embedder loads again"


def test_many_threads_load_the_model_once(files: ModelFiles, cache_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []

    def count(*arguments: Any) -> Any:
        opened.append(arguments)
        return original(*arguments)

    original = minilm._open_session
    monkeypatch.setattr(minilm, "_open_session", count)
    path = copy_model(files, cache_dir / "threads")
    fresh = make(path=path, cache_dir=cache_dir)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: embed(fresh, f"text {number}"), range(24)))
    assert len(opened) == 1


def test_a_cancelled_call_leaves_the_embedder_usable(embedder: MiniLMEmbedder) -> None:
    async def cancel_one() -> np.ndarray:
        task = asyncio.create_task(embedder.embed_batch(["word " * 200] * 40))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await embedder.embed("tea")

    assert asyncio.run(cancel_one()).shape == (384,)


# ------------------------------------------------------------------------------------------------- weights of one's own
def test_the_label_tells_the_published_weights_from_others(
    embedder: MiniLMEmbedder, files: ModelFiles, tmp_path: Path
) -> None:
    assert fingerprint(files.weights) == HALVED_SHA256
    assert embedder.label == "all-MiniLM-L6-v2-fp32"
    same = make(path=copy_model(files, tmp_path / "same"))
    assert same.label == embedder.label
    assert same.score(0.324) == embedder.score(0.324) > 0.5
    other = tmp_path / "other"
    other.mkdir()
    (other / "tokenizer.json").symlink_to(files.tokenizer)
    (other / "model.safetensors").write_bytes(b"tuned")
    tuned = make(path=other)
    assert tuned.label.startswith("all-MiniLM-L6-v2-fp32-")
    assert tuned.score(0.324) == 0.324, "the calibration was not fitted to other weights"


def test_an_exported_onnx_graph_is_read_as_it_is(embedder: MiniLMEmbedder, files: ModelFiles, tmp_path: Path) -> None:
    """Hugging Face's export gives token states and asks for token types; pooling is then done outside of it."""
    import onnx

    model = onnx.load_from_string(build_graph(read_weights(files.weights)))
    states = onnx.helper.make_tensor_value_info("last_hidden_state", onnx.TensorProto.FLOAT, ["b", "s", 384])
    types = onnx.helper.make_tensor_value_info("token_type_ids", onnx.TensorProto.INT64, ["b", "s"])
    del model.graph.output[:]
    model.graph.output.append(states)
    model.graph.input.append(types)
    (tmp_path / "onnx").mkdir()
    onnx.save(model, tmp_path / "onnx" / "model.onnx")
    (tmp_path / "tokenizer.json").symlink_to(files.tokenizer)
    exported = make(path=tmp_path, cache_dir=tmp_path / "cache")
    assert exported.unavailable() is None
    assert np.allclose(embed(exported, *OWN_SENTENCES), embed(embedder, *OWN_SENTENCES), atol=1e-5)
    assert not (tmp_path / "cache").exists()
    assert exported.label != embedder.label


def test_texts_in_one_row_have_the_vectors_of_a_graph_with_padding(embedder: MiniLMEmbedder, files: ModelFiles) -> None:
    session = onnx_module.start_session("minilm", build_graph(read_weights(files.weights)), 1)
    padded = minilm.Encoder(session, files.tokenizer)
    texts = ["where does Ana live?", "harbour", "tea", "", *OWN_SENTENCES, "a b c " * 200]
    assert np.abs(embed(embedder, *texts) - padded.encode(texts)).max() < 1e-6


@pytest.mark.parametrize("weights", ["model.safetensors", "model.onnx"])
def test_damaged_weights_are_an_embedding_error_that_names_the_file(
    files: ModelFiles, tmp_path: Path, weights: str
) -> None:
    (tmp_path / "tokenizer.json").symlink_to(files.tokenizer)
    (tmp_path / weights).write_bytes(b"no weights at all")
    with pytest.raises(EmbeddingError, match=weights):
        embed(make(path=tmp_path, cache_dir=tmp_path), "tea")


def test_weights_of_another_model_are_refused(files: ModelFiles, tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"embeddings.word_embeddings.weight": np.zeros((4, 8), np.float32)}, str(tmp_path / "model.safetensors"))
    (tmp_path / "tokenizer.json").symlink_to(files.tokenizer)
    with pytest.raises(EmbeddingError, match="384 dimensions"):
        embed(make(path=tmp_path, cache_dir=tmp_path), "tea")


def test_a_damaged_tokenizer_is_an_embedding_error(files: ModelFiles, cache_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").symlink_to(files.weights)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(EmbeddingError, match=r"tokenizer\.json"):
        embed(make(path=tmp_path, cache_dir=cache_dir), "tea")


# ---------------------------------------------------------------------------------------------------- what is missing
def without(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    find = minilm_module.importlib.util.find_spec
    monkeypatch.setattr(
        minilm_module.importlib.util, "find_spec", lambda name: None if name in packages else find(name)
    )


def test_a_missing_driver_is_told_with_the_pip_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without(monkeypatch, "onnxruntime")
    embedder = make(cache_dir=tmp_path)
    reason = embedder.unavailable()
    assert reason == f"minilm needs onnxruntime: {extra_line('minilm')}"
    with pytest.raises(DependencyError, match="onnxruntime"):
        embed(embedder, "tea")


def test_missing_weights_are_told_with_both_ways_to_get_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without(monkeypatch, "perdure_minilm")
    reason = make(cache_dir=tmp_path).unavailable() or ""
    assert "perdure init --download" in reason
    assert weights_line() in reason


def test_a_folder_without_the_files_is_named(tmp_path: Path) -> None:
    reason = make(path=tmp_path).unavailable() or ""
    assert str(tmp_path) in reason
    assert "tokenizer.json" in reason


def test_weights_that_appear_later_are_used_without_a_new_embedder(
    files: ModelFiles, tmp_path: Path, cache_dir: Path
) -> None:
    embedder = make(path=tmp_path / "later", cache_dir=cache_dir)
    with pytest.raises(DependencyError):
        embed(embedder, "tea")
    copy_model(files, tmp_path / "later")
    assert embed(embedder, "tea").shape == (1, 384)


def test_a_process_that_embeds_nothing_does_not_wait_for_numpy() -> None:
    code = (
        "import sys; from perdure.backends.embedders.minilm import MiniLMEmbedder as M;"
        "M(M.Settings()).label; assert not {'numpy', 'onnxruntime', 'urllib.request'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_nothing_is_reported_to_the_makers_of_the_runtime(tmp_path: Path) -> None:
    """The runtime leaves a session file in the temporary folder when its telemetry is on."""
    code = (
        "import asyncio, os; from perdure.backends.embedders.minilm import MiniLMEmbedder as M;"
        "asyncio.run(M(M.Settings()).embed('hello')); assert os.environ['ORT_DISABLE_TELEMETRY'] == '1'"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path), "HOME": str(tmp_path / "home")}
    environment.pop("ORT_DISABLE_TELEMETRY", None)
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, timeout=120)
    assert not (tmp_path / ".ses").exists()
    assert not (tmp_path / "home" / ".cache" / "Microsoft").exists()
