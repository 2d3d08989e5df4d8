"""Backup and restore: the same memories, history and search results, and nothing forgotten stays in a backup."""

from __future__ import annotations

import asyncio
import gzip
import json
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perdure.domain.errors import ConfigError, ConflictError, InvalidInputError
from perdure.domain.event import ErasureReport
from perdure.domain.scope import Scope
from perdure.engine.build import build
from perdure.engine.config.config import read_config
from perdure.engine.engine import Engine
from perdure.engine.maintenance.doctor import examine, repair
from perdure.engine.requests import ForgetRequest, Query
from perdure.engine.transfer import backup_erasure
from perdure.engine.transfer.backup import BackupReport, backup, restore
from perdure.engine.transfer.backup_erasure import made_backups
from perdure.engine.transfer.foreign import ImportOptions, Part, import_parts
from perdure.engine.transfer.sealed_file import check_sealed
from tests.engine.transfer.transfers import ANA, BEN, export, load, rifts, run, say

pytestmark = pytest.mark.covers("V80")

QUESTIONS = ("where does she live", "cat", "peanuts", "kept word for word", "喝茶")


def backed_up(path: Path, place: Path, **config: Any) -> BackupReport:
    return run(path, lambda engine: backup(engine, place), **config)


def restored(path: Path, file: Path, *, into_existing: bool = False, reembed: bool = False, **config: Any) -> Any:
    return run(path, lambda engine: restore(engine, file, into_existing=into_existing, reembed=reembed), **config)


def forgotten(path: Path, request: ForgetRequest, **config: Any) -> ErasureReport:
    return run(path, lambda engine: engine.forget(request), **config)


async def found(engine: Engine) -> list[tuple[str, str, float | None, float | None]]:
    """Ids, texts and scores of searches in both scopes."""
    hits: list[tuple[str, str, float | None, float | None]] = []
    await engine.kernel.ready()
    for scope in (ANA, BEN):
        for question in QUESTIONS:
            for item in (await engine.read.find(Query(text=question, scope=scope))).results:
                hits.append((item.id, item.memory, item.score, item.similarity))
    return hits


def text_of(file: Path) -> str:
    return gzip.decompress(file.read_bytes()).decode()


# ------------------------------------------------------------------ there and back


@pytest.mark.covers("V80")
@pytest.mark.parametrize("store", ["sqlite", "faiss", "chroma", "qdrant", "milvus"])
def test_a_restored_memory_is_the_same_to_every_read(lived: Path, tmp_path: Path, store: str) -> None:
    file = tmp_path / "one.jsonl.gz"
    report = backed_up(lived, file)
    assert (report.held.memories, report.bytes) == (report.held.memories, file.stat().st_size) and report.held.history
    assert file.stat().st_mode & 0o077 == 0, "others read nothing of it"
    new = tmp_path / "new"
    place = {} if store == "sqlite" else {"path": str(new / ("s.db" if store == "milvus" else "s"))}
    config = {"vector_store": {"provider": store, "config": place}, "history": {"db_path": str(new / "history.db")}}
    report_in = restored(new, file, **config)
    assert (report_in.refused, report_in.skipped) == (0, 0)
    assert export(new, **config)[1:] == export(lived)[1:]
    ours, theirs = run(lived, found), run(new, found, **config)
    assert [hit[:2] for hit in ours] == [hit[:2] for hit in theirs] and ours
    assert [hit[2] for hit in theirs] == pytest.approx([hit[2] for hit in ours], abs=1e-6)
    assert rifts(new, **config) == []


@pytest.mark.covers("V80")
def test_vectors_travel_and_are_not_made_again(lived: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "one.jsonl.gz"
    backed_up(lived, file)
    from perdure.backends.embedders.hashed import HashedEmbedder

    async def refuse(self: HashedEmbedder, texts: list[str]) -> Any:
        raise AssertionError("nothing is embedded")

    monkeypatch.setattr(HashedEmbedder, "embed_batch", refuse)
    assert restored(tmp_path / "new", file).refused == 0


@pytest.mark.covers("V80")
def test_a_backup_is_an_archive_that_import_reads(lived: Path, tmp_path: Path) -> None:
    file = tmp_path / "one.jsonl.gz"
    backed_up(lived, file)
    report = load(tmp_path / "new", text_of(file).splitlines())
    assert report.refused == 0 and export(tmp_path / "new")[1:] == export(lived)[1:]


@pytest.mark.covers("V80")
def test_another_embedder_is_refused_unless_the_vectors_are_made_anew(lived: Path, tmp_path: Path) -> None:
    file, other = tmp_path / "one.jsonl.gz", {"embedder": {"provider": "hashed", "config": {"dimensions": 64}}}
    backed_up(lived, file)
    with pytest.raises(ConfigError, match="another|of the embedder"):
        restored(tmp_path / "new", file, **other)
    assert not (tmp_path / "new").exists()
    assert run(tmp_path / "new", found, **other) == []
    assert restored(tmp_path / "new", file, reembed=True, **other).new
    assert export(tmp_path / "new", **other)[1:] == export(lived)[1:]


@pytest.mark.covers("V80")
def test_a_memory_that_is_not_empty_is_left_alone_unless_told(lived: Path, tmp_path: Path) -> None:
    file, new = tmp_path / "one.jsonl.gz", tmp_path / "new"
    backed_up(lived, file)
    run(new, lambda engine: say(engine, "I play the cello.", BEN))
    before = export(new)[1:]
    with pytest.raises(ConflictError, match="not empty"):
        restored(new, file)
    assert export(new)[1:] == before
    restored(new, file, into_existing=True)
    texts = "".join(export(new))
    assert "cello" in texts and "Miso" in texts
    assert restored(new, file, into_existing=True).new == 0


# ------------------------------------------------------------------ what is no whole backup


@pytest.mark.covers("V80")
@pytest.mark.parametrize(
    "damage", ["cut", "cut_line", "flip", "empty", "foreign", "text", "longer", "export", "missing"]
)
def test_a_file_that_is_not_whole_changes_nothing(lived: Path, tmp_path: Path, damage: str) -> None:
    file, new = tmp_path / "one.jsonl.gz", tmp_path / "new"
    backed_up(lived, file)
    data, lines = file.read_bytes(), text_of(file).splitlines(keepends=True)
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 0x55
    file.write_bytes(
        {
            "cut": data[: len(data) // 2],
            "cut_line": gzip.compress("".join(lines[:-1]).encode()),
            "flip": bytes(flipped),
            "empty": b"",
            "foreign": gzip.compress(b'{"some": "json"}\n'),
            "text": b"hello \xff\n",
            "longer": gzip.compress("".join([*lines, lines[1]]).encode()),
            "export": "".join(export(lived)).encode(),
            "missing": data,
        }[damage]
    )
    if damage == "missing":
        file.unlink()
    with pytest.raises(InvalidInputError) as refused:
        restored(new, file)
    assert file.name in str(refused.value)
    assert export(new)[1:] == []


@pytest.mark.covers("V80")
@pytest.mark.parametrize("packed", [False, True])
def test_an_export_is_told_from_a_damaged_backup(lived: Path, tmp_path: Path, packed: bool) -> None:
    file, text = tmp_path / "some.jsonl", "".join(export(lived)).encode()
    file.write_bytes(gzip.compress(text) if packed else text)
    with pytest.raises(InvalidInputError, match="is an export and no backup: `perdure import` reads it"):
        restored(tmp_path / "new", file)
    assert not (tmp_path / "new").exists()
    report = backed_up(lived, tmp_path / "one.jsonl.gz")
    whole = text_of(Path(report.file)).splitlines(keepends=True)
    file.write_text("".join(whole[:-1]))
    with pytest.raises(InvalidInputError, match="damaged backup: it is cut off"):
        restored(tmp_path / "new", file)


@pytest.mark.covers("V80")
def test_an_import_of_a_backup_says_what_it_is(lived: Path, tmp_path: Path) -> None:
    backed_up(lived, tmp_path / "one.jsonl.gz")
    part = Part("one", lambda: iter([gzip.decompress((tmp_path / "one.jsonl.gz").read_bytes())]))
    report = run(tmp_path / "new", lambda engine: import_parts(engine, [part], ImportOptions()))
    assert report.refused == 0 and report.new
    assert [warning for warning in report.warnings if "this is a backup: `perdure restore`" in warning]
    text = "".join(export(lived)).encode()
    plain = Part("plain", lambda: iter([text]))
    assert run(tmp_path / "other", lambda engine: import_parts(engine, [plain], ImportOptions())).warnings == []


@pytest.mark.covers("V80")
def test_a_line_that_import_would_refuse_is_found_before_anything_is_written(lived: Path, tmp_path: Path) -> None:
    from perdure.engine.transfer.sealed_file import SealedWriter

    writer = SealedWriter(tmp_path / "odd.jsonl.gz")
    for line in (*export(lived)[:3], '{"record": "memory", "id": 7}\n'):
        writer(line)
    writer.close()
    with pytest.raises(InvalidInputError, match="line 4 of odd"):
        restored(tmp_path / "new", tmp_path / "odd.jsonl.gz")
    assert export(tmp_path / "new")[1:] == []


# ------------------------------------------------------------------ while others write, and where it is killed


@pytest.mark.covers("V80")
def test_a_backup_is_one_state_while_others_write(tmp_path: Path) -> None:
    async def work(engine: Engine) -> None:
        async def write(number: int) -> None:
            await say(engine, f"the number {number} is drawn", Scope(user_id=f"u{number % 3}"), infer=False)

        writers = [asyncio.create_task(write(number)) for number in range(30)]
        await asyncio.sleep(0.02)
        await backup(engine, tmp_path / "one.jsonl.gz")
        await asyncio.gather(*writers)

    run(tmp_path / "busy", work)
    restored(tmp_path / "new", tmp_path / "one.jsonl.gz")
    assert rifts(tmp_path / "new") == []


PROGRAM = """
import asyncio, os, signal, sys
from pathlib import Path
from perdure.engine.build import build
from perdure.engine.config.config import read_config
from perdure.engine.transfer import sealed_file as sealed, transfer, writer as intake
from perdure.engine.transfer.backup import backup
from perdure.engine.transfer.backup import restore

what, path, file, after = sys.argv[1:]
transfer.CHUNK = 4
left = int(after)

def count_down(*_):
    global left
    left -= 1
    if left <= 0:
        os.kill(os.getpid(), signal.SIGKILL)

if what == "backup":
    plain = sealed.SealedWriter.__call__
    def write(self, line):
        plain(self, line)
        count_down()
    sealed.SealedWriter.__call__ = write
else:
    plain = intake.ImportWriter.take
    async def take(self, chunk):
        await plain(self, chunk)
        count_down()
    intake.ImportWriter.take = take

async def go():
    engine = build(read_config({"path": path, "embedder": {"provider": "hashed"}}))
    await (backup if what == "backup" else restore)(engine, Path(file))
    await engine.close()

asyncio.run(go())
"""


def killed(what: str, path: Path, file: Path, after: int) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, what, str(path), str(file), str(after)], capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


@pytest.mark.covers("V80")
def test_a_backup_that_is_killed_leaves_no_backup_and_no_rest(lived: Path, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    backed_up(lived, folder / "one.jsonl.gz")
    whole = (folder / "one.jsonl.gz").read_bytes()
    killed("backup", lived, folder / "one.jsonl.gz", 5)
    assert (folder / "one.jsonl.gz").read_bytes() == whole, "the old one stays"
    assert len(list(folder.iterdir())) == 2
    backed_up(lived, folder / "two.jsonl.gz")
    assert sorted(each.name for each in folder.iterdir()) == ["one.jsonl.gz", "two.jsonl.gz"]


@pytest.mark.covers("V80")
@pytest.mark.parametrize("after", [1, 3])
def test_a_restore_that_is_killed_is_finished_by_the_same_again(lived: Path, tmp_path: Path, after: int) -> None:
    file, new = tmp_path / "one.jsonl.gz", tmp_path / "new"
    backed_up(lived, file)
    killed("restore", new, file, after)
    restored(new, file)
    assert export(new)[1:] == export(lived)[1:]
    assert rifts(new) == []
    with pytest.raises(ConflictError):
        restored(new, file)


# ------------------------------------------------------------------ what is forgotten leaves the backups


@pytest.mark.covers("U4")
def test_what_is_forgotten_is_erased_from_the_backups_too(lived: Path, tmp_path: Path) -> None:
    files = [tmp_path / "one.jsonl.gz", tmp_path / "more" / "two.jsonl.gz"]
    for file in files:
        backed_up(lived, file)
    assert all("Lisbon" in text_of(file) and "Porto" in text_of(file) for file in files)
    dry = forgotten(lived, ForgetRequest(scope=ANA, query="Porto Lisbon", threshold=0.2, dry_run=True))
    assert [place.status for place in dry.places if place.place == "backups"] == ["found"]
    assert "Lisbon" in text_of(files[0])
    report = forgotten(lived, ForgetRequest(scope=ANA, query="Porto Lisbon", threshold=0.2))
    (place,) = [place for place in report.places if place.place == "backups"]
    assert place.status == "erased" and place.count > 0
    for file in files:
        text = text_of(file)
        assert "Lisbon" not in text and "Porto" not in text and "Miso" in text
        check_sealed(file)
    restored(tmp_path / "new", files[0])
    assert rifts(tmp_path / "new") == []
    restored(lived, files[0], into_existing=True)
    assert "Lisbon" not in "".join(export(lived))


@pytest.mark.covers("U4")
def test_a_whole_scope_leaves_them_and_others_stay(lived: Path, tmp_path: Path) -> None:
    file = tmp_path / "one.jsonl.gz"
    backed_up(lived, file)
    forgotten(lived, ForgetRequest(scope=ANA))
    text = text_of(file)
    for gone in ("Lisbon", "Porto", "peanuts", "word for word", "喝茶", "brought back"):
        assert gone not in text
    assert "Miso" in text
    restored(tmp_path / "new", file)
    assert [line[:2] for line in run(tmp_path / "new", found)] == [line[:2] for line in run(lived, found)]


@pytest.mark.covers("U4")
def test_backups_that_cannot_be_reached_are_told_of_and_paid_later(lived: Path, tmp_path: Path) -> None:
    away, moved = tmp_path / "stick" / "one.jsonl.gz", tmp_path / "two.jsonl.gz"
    backed_up(lived, away)
    backed_up(lived, moved)
    (tmp_path / "stick").rename(tmp_path / "drawer")
    moved.unlink()
    report = forgotten(lived, ForgetRequest(scope=BEN))
    (place,) = [place for place in report.places if place.place == "backups"]
    assert place.status == "pending" and report.pending
    assert (
        "one.jsonl.gz: cannot be rewritten now" in place.note
        and "two.jsonl.gz is not where it was written" in place.note
    )
    assert "Miso" in text_of(tmp_path / "drawer" / "one.jsonl.gz")
    (tmp_path / "drawer").rename(tmp_path / "stick")

    async def pay(engine: Engine) -> Any:
        await engine.kernel.ready()
        return await backup_erasure.erase_from_backups(engine.kernel, (), (), dry_run=False)

    paid = run(lived, pay)
    assert (paid.status, paid.count > 0) == ("erased", True)
    assert "Miso" not in text_of(away) and "Lisbon" in text_of(away)

    async def listed(engine: Engine) -> Any:
        await engine.kernel.ready()
        return await made_backups(engine.kernel, await engine.kernel.required_ledger())

    assert [(made.place, bool(made.owed)) for made in run(lived, listed)] == [(away, False)]


@pytest.mark.covers("U4")
def test_backups_beside_a_memory_that_moved_are_erased_where_they_lie(lived: Path, tmp_path: Path) -> None:
    run(lived, backup)
    moved = tmp_path / "moved"
    lived.rename(moved)
    (file,) = (moved / "backups").iterdir()
    assert "Lisbon" in text_of(file)
    request = ForgetRequest(scope=ANA, query="Porto Lisbon", threshold=0.2)
    (place,) = [place for place in forgotten(moved, request).places if place.place == "backups"]
    assert (place.status, place.note) == ("erased", "") and place.count > 0
    assert "Lisbon" not in text_of(file) and "Miso" in text_of(file)
    check_sealed(file)
    again = ForgetRequest(scope=ANA, query="Miso", threshold=0.2)
    assert [place.note for place in forgotten(moved, again).places if place.place == "backups"] == [""]


@pytest.mark.covers("U4")
def test_a_file_of_the_same_name_is_not_taken_for_one_that_cannot_be_reached(lived: Path, tmp_path: Path) -> None:
    stick, drawer = tmp_path / "stick", tmp_path / "drawer"
    file = stick / "kept.jsonl.gz"
    backed_up(lived, file)
    own = lived / "backups" / file.name
    own.parent.mkdir()
    own.write_bytes(file.read_bytes())
    stick.rename(drawer)
    report = forgotten(lived, ForgetRequest(scope=ANA, query="Porto Lisbon", threshold=0.2))
    assert [place.status for place in report.places if place.place == "backups"] == ["pending"]
    drawer.rename(stick)
    forgotten(lived, ForgetRequest(scope=ANA, query="Miso", threshold=0.2))
    assert "Lisbon" not in text_of(file)


def backups_of(report: ErasureReport) -> tuple[str, int, str]:
    (place,) = [place for place in report.places if place.place == "backups"]
    return place.status, place.count, place.note


@pytest.mark.covers("U4")
@pytest.mark.parametrize("is_older", [False, True])
def test_a_copied_memory_erases_its_own_backups_and_not_the_originals(
    lived: Path, tmp_path: Path, is_older: bool
) -> None:
    run(lived, lambda engine: backup(engine, scheduled=True))
    if is_older:  # as it was written before entries said whose they are
        as_before(lived)
    copied = tmp_path / "copied"
    shutil.copytree(lived, copied)
    (original,), (own,) = (lived / "backups").iterdir(), (copied / "backups").iterdir()
    whole = original.read_bytes()
    request = ForgetRequest(scope=ANA, query="Porto Lisbon", threshold=0.2)
    status, count, note = backups_of(forgotten(copied, replace(request, dry_run=True)))
    assert (status, note) == ("found", "") and count
    assert backups_of(forgotten(copied, request)) == ("erased", count, "")
    assert original.read_bytes() == whole and "Lisbon" not in text_of(own) and "Miso" in text_of(own)
    run(copied, lambda engine: backup(engine, scheduled=True), upkeep={"backups_kept": 1})
    assert original.read_bytes() == whole, "nor is it deleted as one of the copy's old ones"
    assert own not in (copied / "backups").iterdir()
    assert backups_of(forgotten(lived, request))[0] == "erased" and "Lisbon" not in text_of(original)


def as_before(path: Path) -> None:
    async def strip(engine: Engine) -> None:
        await engine.kernel.ready()
        ledger = await engine.kernel.required_ledger()
        name = backup_erasure.settings_name(engine.kernel, "backups")
        known = await ledger.settings.get(name)
        bare = {place: {key: told[key] for key in ("at", "host", "scheduled")} for place, told in known.items()}
        await ledger.settings.merge(name, dict.fromkeys(known))
        await ledger.settings.merge(name, bare)

    run(path, strip)


@pytest.mark.covers("U4")
def test_an_originals_backup_elsewhere_is_told_of_and_erased_once_it_is_gone(lived: Path, tmp_path: Path) -> None:
    away, copied = tmp_path / "stick" / "one.jsonl.gz", tmp_path / "copied"
    backed_up(lived, away)
    shutil.copytree(lived, copied)
    whole = away.read_bytes()
    status, count, note = backups_of(forgotten(copied, ForgetRequest(scope=ANA, query="Porto Lisbon", threshold=0.2)))
    assert (status, count) == ("kept", 0)
    assert note == f"{away} keeps the text: it is of the memory that this one was copied from"
    assert away.read_bytes() == whole
    assert run(copied, examine).kinds()["backup"] == 0, "there is nothing to do about it"
    shutil.rmtree(lived)  # so it was moved
    assert backups_of(forgotten(copied, ForgetRequest(scope=BEN)))[0] == "erased"
    assert "Lisbon" not in text_of(away) and "Miso" not in text_of(away)


@pytest.mark.covers("U4")
def test_another_memory_in_the_place_of_one_that_moved_has_no_part_in_its_backups(lived: Path, tmp_path: Path) -> None:
    away, moved = tmp_path / "stick" / "one.jsonl.gz", tmp_path / "moved"
    backed_up(lived, away)
    lived.rename(moved)
    run(lived, lambda engine: say(engine, "I play the cello.", BEN))
    run(lived, backup)
    assert backups_of(forgotten(moved, ForgetRequest(scope=BEN)))[0] == "erased"
    assert "Miso" not in text_of(away)


@pytest.mark.covers("U4")
def test_the_doctor_lists_erasures_that_wait_and_finishes_them(lived: Path, tmp_path: Path) -> None:
    stick, drawer = tmp_path / "stick", tmp_path / "drawer"
    backed_up(lived, stick / "one.jsonl.gz")
    stick.rename(drawer)
    forgotten(lived, ForgetRequest(scope=BEN))

    def waiting() -> list[Any]:
        return [finding for finding in run(lived, examine).findings if finding.kind == "backup"]

    (finding,) = waiting()
    assert finding.notice and not finding.repairable
    assert f"{stick / 'one.jsonl.gz'} still holds what was forgotten: its folder is not here now" in finding.sentence
    drawer.rename(stick)
    (finding,) = waiting()
    assert finding.repairable and not finding.notice and "perdure doctor --repair" in finding.sentence

    async def mend(engine: Engine) -> Any:
        return await repair(engine, await examine(engine))

    assert any("erased what was forgotten from backups" in sentence for sentence in run(lived, mend).done)
    assert waiting() == [] and "Miso" not in text_of(stick / "one.jsonl.gz")


@pytest.mark.covers("U4")
def test_a_new_backup_finishes_what_waits_in_others(lived: Path, tmp_path: Path) -> None:
    stick, drawer = tmp_path / "stick", tmp_path / "drawer"
    backed_up(lived, stick / "one.jsonl.gz")
    stick.rename(drawer)
    forgotten(lived, ForgetRequest(scope=BEN))
    owed = backed_up(lived, tmp_path / "two.jsonl.gz").owed
    assert owed.startswith("one.jsonl.gz: cannot be rewritten now")
    drawer.rename(stick)
    assert backed_up(lived, tmp_path / "two.jsonl.gz").owed == ""
    assert "Miso" not in text_of(stick / "one.jsonl.gz")


@pytest.mark.covers("U4")
def test_a_deletion_alone_leaves_backups_as_they_are(lived: Path, tmp_path: Path) -> None:
    file = tmp_path / "one.jsonl.gz"
    backed_up(lived, file)
    before = file.read_bytes()
    report = forgotten(lived, ForgetRequest(scope=BEN, erase=False))
    assert file.read_bytes() == before and "backups" not in {place.place for place in report.places}


@pytest.mark.covers("U4")
def test_two_processes_that_forget_at_once_both_reach_the_file(lived: Path, tmp_path: Path) -> None:
    file = tmp_path / "one.jsonl.gz"
    backed_up(lived, file)

    async def both() -> None:
        config = read_config({"path": lived, "embedder": {"provider": "hashed"}})
        engines = [build(config), build(config)]
        await asyncio.gather(
            *(engine.forget(ForgetRequest(scope=scope)) for engine, scope in zip(engines, (ANA, BEN), strict=True))
        )
        for engine in engines:
            await engine.close()

    asyncio.run(both())
    records = [json.loads(line) for line in text_of(file).splitlines()]
    assert {record.get("record") for record in records} == {None, "history", "seal"}
    assert all(record["erased"] for record in records if record.get("record") == "history")
    assert file.stat().st_mode & 0o077 == 0
