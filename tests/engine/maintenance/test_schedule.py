"""The schedule: each task of upkeep when it is due, once, whoever dies."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import Memory, MemoryStore
from perdure.domain.errors import ConfigError, VectorStoreError
from perdure.engine.engine import Engine
from perdure.engine.maintenance.schedule import Schedule, running_schedule
from perdure.frontends.library.portal import PORTAL
from tests.conftest import Open
from tests.engine.team.teams import MovedClock

pytestmark = pytest.mark.covers("B8", "U20", "V68", "V80")

QUICK: dict[str, Any] = {"embedder": {"provider": "hashed"}}
DAILY = {"expire_hours": 1, "prune_hours": 24, "backup_hours": 24, "backups_kept": 2}


def opened(open_memory: Open, **upkeep: Any) -> tuple[Memory, Engine, MovedClock]:
    clock = MovedClock()
    memory = open_memory(**QUICK, upkeep=upkeep)
    clock.of(memory)
    return memory, memory._memory._engine, clock


def ran(engine: Engine, *, everything: bool = False) -> list[str]:
    done = PORTAL.call(Schedule(engine).run(everything=everything))
    assert all(each.error is None for each in done)
    return [each.task for each in done]


@pytest.mark.covers("U20")
def test_each_task_is_done_when_it_is_due_and_not_before(open_memory: Open) -> None:
    _, engine, clock = opened(open_memory, **DAILY)
    assert PORTAL.call(Schedule(engine).due()) == ["expire", "prune", "backup"]
    assert ran(engine) == ["expire", "prune", "backup"]
    assert ran(engine) == []
    clock.ahead = timedelta(minutes=61)
    assert PORTAL.call(Schedule(engine).due()) == ["expire"]
    assert ran(engine) == ["expire"]
    clock.ahead = timedelta(hours=25)
    assert ran(engine) == ["expire", "prune", "backup"]
    assert ran(engine, everything=True) == ["expire", "prune", "backup"]
    assert ran(engine) == []
    clock.ahead = timedelta(minutes=1440 + 10)  # another machine's clock, a little behind
    assert ran(engine) == []
    clock.ahead = timedelta()  # the clock was wrong by a day, and has been set
    assert ran(engine) == ["expire", "prune", "backup"]
    assert ran(engine) == []


@pytest.mark.covers("U20")
def test_zero_hours_is_never_and_quotas_need_a_number(open_memory: Open) -> None:
    _, engine, _ = opened(open_memory, expire_hours=0, quota_hours=1)
    assert ran(engine) == ran(engine, everything=True) == []
    _, engine, _ = opened(open_memory, expire_hours=0, quota_hours=1, max_memories_per_user=5)
    assert ran(engine) == ["quota"]
    with pytest.raises(ConfigError, match="upkeep"):
        opened(open_memory, prune_hours=-1)


@pytest.mark.covers("U20")
def test_when_it_was_done_outlives_the_process(open_memory: Open) -> None:
    memory, engine, _ = opened(open_memory, **DAILY)
    assert "prune" in ran(engine)
    memory.close()
    _, engine, _ = opened(open_memory, **DAILY)
    assert ran(engine) == []


@pytest.mark.covers("B8", "V68")
def test_what_is_due_really_deletes(open_memory: Open) -> None:
    memory, engine, clock = opened(open_memory, **DAILY)
    old = memory.add("the kettle is blue", user_id="ana", infer=False).results[0].id
    end = clock() + timedelta(days=1)
    short = memory.add("the code is 4711", user_id="ana", infer=False, expires_at=end).results[0].id
    assert ran(engine) and memory.get(old) is not None
    clock.ahead = timedelta(days=2)
    ran(engine)
    assert [record.actor for record in memory.history(short)] == ["add", "expiry"]
    clock.ahead = timedelta(days=60)
    ran(engine)
    assert [record.actor for record in memory.history(old)] == ["add", "prune"]


@pytest.mark.covers("V80")
def test_scheduled_backups_are_kept_in_number_and_others_stay(open_memory: Open, tmp_path: Path) -> None:
    from perdure.engine.transfer.backup import backup
    from perdure.engine.transfer.backup_erasure import backup_folder

    _, engine, clock = opened(open_memory, expire_hours=0, backup_hours=24, backups_kept=2)
    own = Path(PORTAL.call(backup(engine)).file)
    for day in range(4):
        clock.ahead = timedelta(days=day, hours=day)
        assert ran(engine) == ["backup"]
    files = sorted(backup_folder(engine.kernel).iterdir())
    assert len(files) == 3 and own in files


@pytest.mark.covers("U20")
def test_a_task_that_fails_is_told_and_tried_again_and_stops_no_other(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    memory, engine, _ = opened(open_memory, **DAILY)
    secret = "the kettle is blue"
    memory.add(secret, user_id="ana", infer=False)

    async def fails(*_: Any, **__: Any) -> Any:
        raise VectorStoreError("the disk is full")

    async def breaks(*_: Any, **__: Any) -> Any:
        raise ValueError(secret)

    with monkeypatch.context() as patch:
        patch.setattr(engine.maintenance.expire, "everywhere", fails)
        patch.setattr(engine.maintenance, "prune", breaks)
        done = PORTAL.call(Schedule(engine).run())
    assert [(each.task, each.error) for each in done] == [
        ("expire", "VectorStoreError: the disk is full"),
        ("prune", "ValueError"),
        ("backup", None),
    ]
    assert secret not in caplog.text and "the disk is full" in caplog.text
    assert PORTAL.call(Schedule(engine).due()) == ["expire", "prune"]
    assert ran(engine, everything=True) == ["expire", "prune", "backup"]


@pytest.mark.covers("U20")
def test_two_that_look_at_once_do_it_once(tmp_path: Path) -> None:
    config = {"path": str(tmp_path / "memory"), **QUICK, "upkeep": DAILY}
    with Memory(config) as one, Memory(config) as two:
        engines = [each._memory._engine for each in (one, two)]

        async def both() -> list[str]:
            done = await asyncio.gather(*(Schedule(engine).run() for engine in engines))
            return sorted(each.task for some in done for each in some)

        assert PORTAL.call(both()) == ["backup", "expire", "prune"]
        assert PORTAL.call(both()) == []


PROGRAM = """
import asyncio, sys
from perdure.engine.build import build
from perdure.engine.config.config import read_config
from perdure.engine.maintenance.schedule import Schedule

async def go():
    engine = build(read_config({"path": sys.argv[1], "embedder": {"provider": "hashed"}}))
    async def hang():
        print("under way", flush=True)
        await asyncio.sleep(600)
    engine.maintenance.expire.everywhere = hang
    await Schedule(engine).run()

asyncio.run(go())
"""


@pytest.mark.covers("U20")
def test_what_a_killed_process_had_is_done_by_another(tmp_path: Path) -> None:
    path = tmp_path / "memory"
    with subprocess.Popen([sys.executable, "-c", PROGRAM, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"under way\n"
        with Memory({"path": str(path), **QUICK}) as memory:
            engine = memory._memory._engine
            assert ran(engine) == [], "the other one is at it"
            process.send_signal(signal.SIGKILL)
            process.wait()
            assert ran(engine) == ["expire"]
            assert ran(engine) == []


@pytest.mark.covers("U20")
def test_a_server_does_it_at_once_and_gives_back_what_it_was_at(open_memory: Open) -> None:
    memory, engine, _ = opened(open_memory, **DAILY)
    begun = asyncio.Event()

    async def hang(*_: Any, **__: Any) -> Any:
        begun.set()
        await asyncio.sleep(600)

    async def serve() -> None:
        prune, engine.maintenance.prune = engine.maintenance.prune, hang  # type: ignore[assignment]
        async with running_schedule(engine):
            await begun.wait()
        engine.maintenance.prune = prune

    PORTAL.call(serve())
    assert "expire" not in PORTAL.call(Schedule(engine).due())
    assert ran(engine) == ["prune", "backup"]
    memory.close()


HAWAII = ("Budget for Hawaii is $10,000", "Added $2,000 to Hawaii budget", "Final Hawaii budget is $12,000")


@pytest.mark.covers("V69", "V70")
def test_who_has_enough_is_consolidated_and_who_was_told_something_is_reflected_on(open_memory: Open) -> None:
    memory, engine, clock = opened(
        open_memory, expire_hours=0, consolidate_hours=24, reflect_hours=24, consolidate_from=3
    )
    for user, count in (("ana", 3), ("ben", 2)):
        for text in HAWAII[:count]:
            MemoryStore(memory).store(text, user_id=user)
    asked = []
    plain = engine.reflect

    async def noted(scope: Any, **more: Any) -> Any:
        asked.append(scope.user_id)
        return await plain(scope, **more)

    engine.reflect = noted  # type: ignore[assignment]
    done = {each.task: each for each in PORTAL.call(Schedule(engine).run())}
    assert done["consolidate"].told == {"count": 1, "merged": 3} and done["reflect"].error is None
    for user, left in (("ana", 1), ("ben", 2)):
        facts = [item for item in memory.get_all(user_id=user).results if item.type != "reflective"]
        assert len(facts) == left
    assert sorted(asked) == ["ana", "ben"]
    clock.ahead = timedelta(hours=25)
    memory.add("the kettle is blue", user_id="ben", infer=False)
    clock.ahead = timedelta(hours=50)
    asked.clear()
    assert set(ran(engine)) == {"consolidate", "reflect"}
    assert asked == ["ben"], "nobody else was told anything since"
