"""A disk that is really full (a small file system of memory): what a failed call says of its change is what happens."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from perdure import Memory
from perdure.domain.errors import KEPT, LedgerError, VectorStoreError
from perdure.frontends.faults import fault_of

CONFIG = """
import json, os, sys
from pathlib import Path
from perdure import Memory, PerdureError

folder, provider = Path(sys.argv[1]) / "memory", sys.argv[2]
place = folder / "memories.db" if provider == "sqlite" else folder
config = {
    "path": folder,
    "vector_store": {"provider": provider, "config": {"path": place}},
    "embedder": {"provider": "hashed"},
}
"""
WRITER = f"""{CONFIG}
memory = Memory(config)
memory.add("fact 0 from before", user_id="ana", infer=False)
room = os.statvfs(folder)
with (folder.parent / "filler").open("wb") as filler:
    filler.write(bytes(max(0, room.f_bavail * room.f_bsize - int(sys.argv[3]))))
for number in range(1, 6):
    text = f"fact {{number}} " + "of some length, as facts of this test are " * 40
    try:
        memory.add(text, user_id="ana", infer=False)
        print(json.dumps([number, "", ""]))
    except PerdureError as error:
        print(json.dumps([number, error.code, str(error)]))
sys.stdout.flush()
os._exit(9)
"""
READER = f"""{CONFIG}
with Memory(config) as memory:
    print(sorted(int(item.memory.split()[1]) for item in memory.get_all(user_id="ana").results))
    memory.add("fact 9 from after", user_id="ana", infer=False)
"""
STEPS = """
mount -t tmpfs -o size=4m none "$1" || exit 77
"$3" -c "$4" "$1" "$2" "$6"
rm "$1/filler"
"$3" -c "$5" "$1" "$2"
"""


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare, as Linux has it")
@pytest.mark.parametrize("provider", ["sqlite", "markdown"])
@pytest.mark.parametrize("room", [0, 90_000, 130_000, 300_000])
def test_what_is_told_of_a_full_disk_is_what_happens(tmp_path: Path, provider: str, room: int) -> None:
    """Killed in the end: what was refused never comes, what was kept comes, and what was stored stays."""
    arguments = [str(tmp_path), provider, sys.executable, WRITER, READER, str(room)]
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", STEPS, "sh", *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"no file system may be mounted here: {done.stderr}")
    *told, stored = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(told) == 5, done.stderr
    assert any(code for _, code, _ in told), "the disk was not full"
    come = {number for number, code, _ in told if code in ("", KEPT)}
    assert set(stored) == {0} | come
    for _, code, message in told:
        if code == KEPT:
            assert "kept in the journal" in message
            assert "nothing" not in message
        elif code:
            assert "nothing" in message


def test_a_client_is_not_told_to_try_again_what_is_kept() -> None:
    error = VectorStoreError("the disk is full")
    error.amend("the change is kept", code=KEPT)
    fault = fault_of(error, "facts")
    assert (fault.status, fault.code) == (503, KEPT)
    assert "do not make it again" in fault.message
    assert "try again" not in fault.message
    assert str(error) == error.message == "the disk is full; the change is kept"


def test_a_step_that_fails_says_what_earlier_steps_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from perdure.backends.ledgers.sqlite import SqliteLedger
    from perdure.engine.write import revise

    monkeypatch.setattr(revise, "PAGE", 2)
    with Memory({"path": tmp_path, "embedder": {"provider": "hashed"}}) as memory:
        for number in range(5):
            memory.add(f"fact {number}", user_id="ana", infer=False)
        write, calls = SqliteLedger.write, []

        async def once(self: SqliteLedger, *args: object, **more: object) -> None:
            calls.append(1)
            if len(calls) > 1:
                raise LedgerError("the disk is full")
            await write(self, *args, **more)  # type: ignore[arg-type]  # passed on as it came

        monkeypatch.setattr(SqliteLedger, "write", once)
        with pytest.raises(LedgerError, match="before that 2 memories of the scope were deleted"):
            memory.delete_all(user_id="ana")
        assert len(memory.get_all(user_id="ana").results) == 3
