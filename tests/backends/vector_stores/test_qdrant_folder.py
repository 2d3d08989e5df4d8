"""The Qdrant store in a folder beside its contract: one store at a time, nothing half made, no trace of the erased."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perdure.backends import registry
from perdure.backends.vector_stores.qdrant import folder as _qdrant_folder
from perdure.domain.errors import ConfigError, VectorStoreError
from perdure.domain.filter import Condition, eq
from tests.contracts.conftest import DIMENSION, Sync, ids, row, vector

SECRET = "marmalade-and-kippers"


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[[], Sync]]:
    """Makes stores on one folder that are not open yet."""
    loop = asyncio.new_event_loop()
    made: list[Sync] = []

    def make_one() -> Sync:
        store = Sync(registry.build("vector_stores", "qdrant", {"path": str(tmp_path / "q"), "retries": 0}), loop)
        made.append(store)
        return store

    yield make_one
    for store in made:
        store.close()
    loop.close()


@pytest.fixture
def store(make: Callable[[], Sync]) -> Sync:
    found = make()
    found.open()
    found.create_collection("c", DIMENSION, model="m")
    return found


def shards(folder: Path) -> list[Path]:
    return sorted(folder.glob("q/*/shard-*"))


def test_a_folder_is_one_stores_alone(store: Sync, make: Callable[[], Sync], tmp_path: Path) -> None:
    second = make()
    with pytest.raises(VectorStoreError, match="open elsewhere") as caught:
        second.open()
    assert str(tmp_path / "q") in str(caught.value)
    store.apply("c", [row("a")])
    store.close()
    second.open()
    assert ids(second.list("c")) == ["a"]


def test_the_dimension_is_known_before_opening(store: Sync, make: Callable[[], Sync]) -> None:
    closed = make()
    assert closed.stored_dimension("c") == DIMENSION
    assert closed.stored_dimension("C") is None
    with pytest.raises(ConfigError, match=str(DIMENSION)):
        store.create_collection("c", DIMENSION + 1)


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_erased_text_is_in_no_file_after_a_scrub(store: Sync, tmp_path: Path, how: str) -> None:
    store.apply("c", [row("a", memory=f"Likes {SECRET}", user_id=SECRET), row("b", None), row("c", [0, 1])])
    store.apply("c", [] if how == "deleted" else [row("a")], ["a"] if how == "deleted" else [])
    store.sync()
    assert holding(tmp_path) != []
    assert store.scrub() is True
    assert holding(tmp_path) == []
    kept = ["b", "c"] if how == "deleted" else ["a", "b", "c"]
    assert ids(store.list("c")) == kept
    assert ids(store.unembedded("c", 5)) == ["b"]
    assert ids(store.search("c", vector(0, 1), 1, eq("user_id", "alice"))) == ["c"]
    assert ids(store.keyword_search("c", "text", 5)) == kept
    store.close()
    store.open()
    assert ids(store.list("c")) == kept
    assert store.get_collection_info("c").model == "m"


def holding(folder: Path) -> list[str]:
    return [file.name for file in folder.rglob("*") if file.is_file() and SECRET.encode() in file.read_bytes()]


def test_a_scrub_with_nothing_to_erase_copies_nothing(store: Sync, tmp_path: Path) -> None:
    store.apply("c", [row("a")])
    store.scrub()
    before = shards(tmp_path)
    store.scrub()
    assert shards(tmp_path) == before


def test_what_a_killed_process_left_half_done_is_swept_away(store: Sync, tmp_path: Path) -> None:
    store.apply("c", [row("a")])
    store.close()
    (shard,) = shards(tmp_path)
    copy = shard.with_name("shard-of-a-scrub")
    copy.mkdir()
    removed = tmp_path / "q" / "removed.0123"
    (removed / "shard-x").mkdir(parents=True)
    store.open()
    assert store.list_collections() == ["c"]
    assert ids(store.list("c")) == ["a"]
    assert shards(tmp_path) == [shard]
    assert not removed.exists()


def test_a_scrub_that_breaks_off_loses_nothing(store: Sync, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.apply("c", [row("a")])

    def fails(*args: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as broken:
        broken.setattr(_qdrant_folder, "_write_label", fails)
        with pytest.raises(VectorStoreError, match="no space left"):
            store.scrub()
    assert len(shards(tmp_path)) == 1, "the half-made copy is gone at once"
    assert ids(store.list("c")) == ["a"]
    store.close()
    store.open()
    assert ids(store.list("c")) == ["a"]
    assert len(shards(tmp_path)) == 1


def test_a_collection_that_cannot_be_made_leaves_nothing(
    store: Sync, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*args: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as broken:
        broken.setattr(_qdrant_folder, "_write_label", fails)
        with pytest.raises(VectorStoreError, match="no space left"):
            store.create_collection("d", DIMENSION)
    assert len(shards(tmp_path)) == 1
    store.create_collection("d", DIMENSION)
    assert sorted(store.list_collections()) == ["c", "d"]


def test_a_damaged_shard_is_told_of(store: Sync, tmp_path: Path) -> None:
    store.close()
    (config,) = tmp_path.glob("q/*/shard-*/edge_config.json")
    config.write_text("{")
    with pytest.raises(VectorStoreError, match="the folder"):
        store.open()
    config.unlink()


def test_a_place_where_no_folder_can_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = registry.build("vector_stores", "qdrant", {"path": str(tmp_path / "file" / "q"), "retries": 0})
    with pytest.raises(VectorStoreError, match="the folder"):
        asyncio.run(store.open())


NAMES = ["a/b", "..", "a b", "a?b", "\ud800", "x" * 300, "", "C"]


def test_names_that_are_hostile_or_alike_are_collections_of_their_own(store: Sync, tmp_path: Path) -> None:
    for number, name in enumerate(NAMES):
        store.create_collection(name, 2)
        store.insert(name, str(number), vector(1)[:2], {})
    store.close()
    store.open()
    assert store.list_collections() == sorted([*NAMES, "c"])
    assert [ids(store.list(name)) for name in NAMES] == [[str(number)] for number in range(len(NAMES))]
    assert all(folder.parent == tmp_path / "q" for folder in (tmp_path / "q").iterdir())
    assert list(tmp_path.iterdir()) == [tmp_path / "q"]


def test_parts_of_texts_are_found_by_the_engine(store: Sync) -> None:
    store.apply("c", [row("a", memory="Likes Python%_"), row("b", memory="likes python")])
    assert ids(store.list("c", Condition("memory", "contains", "thon%_"))) == ["a"]
    assert ids(store.list("c", Condition("memory", "icontains", "PYTHON"))) == ["a", "b"]
