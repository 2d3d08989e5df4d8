"""One memory, many ways in: what is made through one is the same through every other, where scopes allow.

Every ordered pair is one test. All ways share one folder, of which the library, the server, MemoryClient and each
command of the program have an engine of their own. They do so on files, as MemoryClient has it, and on records.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import product
from typing import Any

import pytest

from perdure import Memory, MemoryClient
from perdure.frontends.library.portal import PORTAL
from tests.frontends.cli.runs import Folder
from tests.frontends.gateway.conftest import gateway_to, knowing
from tests.frontends.gateway.upstream import upstream
from tests.frontends.server.mem0.clients import mem0_client
from tests.frontends.server.running import SECRET
from tests.frontends.ways.base import TEAM, Corner, Way, World
from tests.frontends.ways.files import Files
from tests.frontends.ways.library import Library, Program, Runtime, Store, Team
from tests.frontends.ways.served import Chat, Client, Mem0, Rest, RestStore, RestTeam

pytestmark = pytest.mark.covers("U3", "U7", "U16")

ON_RECORDS: tuple[type[Way], ...] = (
    Library, Store, Runtime, Team, Program, Rest, RestStore, Mem0, RestTeam, Chat,
)  # fmt: skip
ON_FILES: tuple[type[Way], ...] = (*ON_RECORDS, Client, Files)
LISBON, PORTO = "User lives in Lisbon", "User lives in Porto"

Pair = tuple[type[Way], type[Way]]


@pytest.fixture(scope="module")
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The folder, opened by everybody; its store is the parameter's."""
    folder = tmp_path_factory.mktemp("shared") / "memory"
    with upstream() as model, ExitStack() as stack:
        client: MemoryClient | None = None
        settings: dict[str, Any] = {"embedder": {"provider": "hashed"}, "vector_store": {"provider": request.param}}
        settings["episodes"] = "notes"  # a chat's answers repeat what was told, and would be found beside it
        if request.param == "markdown":
            client = MemoryClient(folder, model.url, embedding_model="hashed", enable_git_versioning=False)
            settings["vector_store"] = client.config.vector_store.model_dump()
            PORTAL.call(client.start())
            stack.callback(lambda: PORTAL.call(client.stop()))
        folder.mkdir(exist_ok=True)
        (folder / "perdure.toml").write_text(_toml(settings), encoding="utf-8")
        served = {"gateway": knowing(model), "env": {"PERDURE_JWT_SECRET": SECRET}}
        memory = stack.enter_context(Memory({"path": str(folder), **settings}))
        server = stack.enter_context(gateway_to(folder, model.url, **served, **settings))
        mem0 = stack.enter_context(mem0_client(server.url))
        yield World(folder, memory, server, mem0, Folder(folder), client, model)


def _toml(value: Any, depth: int = 0) -> str:
    """Settings as a file of the program has them."""
    if not isinstance(value, dict):
        return json.dumps(value)
    pairs = [f"{name} = {_toml(each, depth + 1)}" for name, each in value.items() if each is not None]
    return "{" + ", ".join(pairs) + "}" if depth else "\n".join(pairs)


def sees(pair: Pair) -> bool:
    """Whether the second can ask for what the first makes: a team's stands behind its own walls, from both sides."""
    maker, reader = pair
    return reader.NEEDS <= maker.WRITES and (TEAM in reader.NEEDS) == (TEAM in maker.NEEDS)


def has_walls(pair: Pair) -> bool:
    """A folder has none: who may read it reads a team's files too."""
    return not (pair[1] is Files and TEAM in pair[0].NEEDS)


def pairs(ways: tuple[type[Way], ...]) -> list[Pair]:
    return [(maker, reader) for maker, reader in product(ways, repeat=2) if maker is not reader]


def cases(store: str, ways: tuple[type[Way], ...], *, seen: bool) -> list[Any]:
    """The pairs of which the second sees, or does not see, what the first makes."""
    return [
        pytest.param(store, pair, id=f"{store}-{pair[0].NAME}-to-{pair[1].NAME}")
        for pair in pairs(ways)
        if sees(pair) == seen and has_walls(pair)
    ]


SEEN = [*cases("markdown", ON_FILES, seen=True), *cases("sqlite", ON_RECORDS, seen=True)]
WALLED = cases("markdown", ON_FILES, seen=False)


@pytest.mark.covers("U7", "U16")
@pytest.mark.parametrize(("world", "pair"), SEEN, indirect=["world"])
def test_made_by_one_way_it_is_read_changed_and_deleted_by_the_other(world: World, pair: Pair) -> None:
    corner = Corner(world)
    maker, reader = pair[0](corner), pair[1](corner)
    made = corner.of(maker.WRITES)
    asked = corner.of((reader.WRITES & maker.WRITES) | reader.NEEDS)
    id = maker.keep(made, LISBON)
    for form in (id, f"mem_{id}"):
        assert reader.get(form, asked) == LISBON, form
        assert reader.history(form, asked) == maker.history(id, made), form
    assert reader.found(asked, LISBON) == reader.listed(asked) == [LISBON]
    [(_, event, old, new, _)] = maker.history(id, made)
    assert (event, old, new) == ("ADD", None, LISBON)

    now = reader.change(id, asked, PORTO)
    assert now is not None
    assert maker.listed(made) == reader.listed(asked) == [PORTO]
    assert maker.found(made, PORTO) == [PORTO]
    told = [each[1:4] for each in world.memory_rows(now)]
    assert world.memory_rows(id) == world.memory_rows(now)
    assert told == [("ADD", None, LISBON), ("UPDATE", LISBON, PORTO)]

    assert reader.delete(now, asked)
    assert maker.get(now, made) is None and reader.get(now, asked) is None
    assert maker.found(made, PORTO) == maker.listed(made) == reader.listed(asked) == []
    assert [each[1:4] for each in world.memory_rows(id)] == [*told, ("DELETE", PORTO, None)]


@pytest.mark.covers("U7", "U22")
@pytest.mark.parametrize(("world", "pair"), WALLED, indirect=["world"])
def test_where_scopes_do_not_allow_it_the_other_way_has_nothing_of_it(world: World, pair: Pair) -> None:
    corner = Corner(world)
    maker, other = pair[0](corner), pair[1](corner)
    made, asked = corner.of(maker.WRITES), corner.of(other.WRITES)
    id = maker.keep(made, LISBON)
    assert other.found(asked, LISBON) == other.listed(asked) == []
    assert other.get(id, asked) is None
    if not other.SPEAKS:
        assert other.change(id, asked, PORTO) is None
        assert other.delete(id, asked) is False
    assert maker.get(id, made) == LISBON
    assert maker.listed(made) == [LISBON]


@pytest.mark.covers("U7", "U22")
@pytest.mark.parametrize("world", ["markdown"], indirect=True)
@pytest.mark.parametrize("reader", ON_FILES, ids=lambda way: way.NAME)
def test_who_asks_for_somebody_else_finds_nothing(world: World, reader: type[Way]) -> None:
    theirs, mine = Corner(world), Corner(world)
    maker = RestTeam(theirs) if TEAM in reader.NEEDS else Library(theirs)
    maker.keep(theirs.of(maker.WRITES), LISBON)
    asked = mine.of(reader.WRITES)
    assert reader(mine).found(asked, LISBON) == reader(mine).listed(asked) == []


@pytest.mark.covers("K5")
@pytest.mark.parametrize("world", ["markdown"], indirect=True)
def test_a_folder_has_no_walls(world: World) -> None:
    """A team's memory is a file like any other: who may read the folder reads it."""
    corner = Corner(world)
    team = Team(corner)
    id = team.keep(corner.of(team.WRITES), LISBON)
    assert Files(corner).get(id, {}) == LISBON
