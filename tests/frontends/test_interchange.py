"""One memory, many ways in: what is made through one is the same through every other, where scopes allow (U3, U7, U16).

Every ordered pair is one test. All ways share one folder, of which the library, the server, MemoryClient and each
command of the program have an engine of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from perdure import Memory, MemoryClient
from perdure.frontends.library.portal import PORTAL
from tests.frontends.cli_runs import Folder
from tests.frontends.gateway.conftest import gateway_to, knowing
from tests.frontends.gateway.upstream import upstream
from tests.frontends.server.mem0_clients import mem0_client
from tests.frontends.server.running import SECRET
from tests.frontends.ways.base import TEAM, Corner, Way, World
from tests.frontends.ways.library import Library, Program, Runtime, Store, Team
from tests.frontends.ways.served import Chat, Client, Mem0, Rest, RestStore, RestTeam

WAYS: tuple[type[Way], ...] = (
    Library, Store, Runtime, Team, Program, Rest, RestStore, Mem0, RestTeam, Chat, Client,
)  # fmt: skip
LISBON, PORTO = "User lives in Lisbon", "User lives in Porto"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The folder, opened by everybody; its store is the one that MemoryClient opens."""
    folder = tmp_path_factory.mktemp("shared") / "memory"
    with upstream() as model:
        client = MemoryClient(folder, model.url, embedding_model="hashed", enable_git_versioning=False)
        store = client.config.vector_store
        settings = {"embedder": {"provider": "hashed"}, "vector_store": store.model_dump()}
        folder.mkdir(exist_ok=True)
        (folder / "perdure.toml").write_text(_toml(store.provider), encoding="utf-8")
        with (
            Memory({"path": str(folder), **settings}) as memory,
            gateway_to(
                folder, model.url, gateway=knowing(model), env={"PERDURE_JWT_SECRET": SECRET}, **settings
            ) as server,
            mem0_client(server.url) as mem0,
        ):
            PORTAL.call(client.start())
            yield World(folder, memory, server, mem0, Folder(folder), client, model)
            PORTAL.call(client.stop())


def _toml(provider: str) -> str:
    return f'[embedder]\nprovider = "hashed"\n[vector_store]\nprovider = "{provider}"\n'


def sees(reader: type[Way], maker: type[Way]) -> bool:
    """Whether a reader can ask for what a maker makes: a team's stands behind its own walls, from both sides."""
    return reader.NEEDS <= maker.WRITES and (TEAM in reader.NEEDS) == (TEAM in maker.NEEDS)


PAIRS = [(maker, reader) for maker, reader in product(WAYS, repeat=2) if maker is not reader]
SEEN = [pair for pair in PAIRS if sees(pair[1], pair[0])]
WALLED = [pair for pair in PAIRS if not sees(pair[1], pair[0])]


def named(pair: tuple[type[Way], type[Way]]) -> str:
    return f"{pair[0].NAME}-to-{pair[1].NAME}"


@pytest.mark.parametrize("pair", SEEN, ids=named)
def test_u7_u16_made_by_one_way_it_is_read_changed_and_deleted_by_the_other(
    world: World, pair: tuple[type[Way], type[Way]]
) -> None:
    corner = Corner(world)
    maker, reader = pair[0](corner), pair[1](corner)
    made = corner.of(maker.WRITES)
    asked = corner.of((reader.WRITES & maker.WRITES) | reader.NEEDS)
    id = maker.keep(made, LISBON)
    for form in (id, f"mem_{id}", f"mem_{id.replace('-', '')}"):
        assert reader.get(form, asked) == LISBON, form
        assert reader.history(form, asked) == maker.history(id, made), form
    assert reader.found(asked, LISBON) == reader.listed(asked) == [LISBON]
    [(_, event, old, new, _)] = maker.history(id, made)
    assert (event, old, new) == ("ADD", None, LISBON)

    now = reader.change(id, asked, PORTO)
    assert now is not None
    assert maker.listed(made) == reader.listed(asked) == [PORTO]
    assert maker.found(made, PORTO) == [PORTO]
    told = [each[1:4] for each in world.memory_rows(id)]
    assert told == [("ADD", None, LISBON), ("UPDATE", LISBON, PORTO)]

    assert reader.delete(now, asked)
    assert maker.get(now, made) is None and reader.get(now, asked) is None
    assert maker.found(made, PORTO) == maker.listed(made) == reader.listed(asked) == []
    assert [each[1:4] for each in world.memory_rows(id)] == [*told, ("DELETE", PORTO, None)]


@pytest.mark.parametrize("pair", WALLED, ids=named)
def test_u7_u22_where_scopes_do_not_allow_it_the_other_way_has_nothing_of_it(
    world: World, pair: tuple[type[Way], type[Way]]
) -> None:
    corner = Corner(world)
    maker, other = pair[0](corner), pair[1](corner)
    made, asked = corner.of(maker.WRITES), corner.of(other.WRITES)
    id = maker.keep(made, LISBON)
    assert other.found(asked, LISBON) == other.listed(asked) == []
    assert other.get(id, asked) is None
    assert maker.listed(made) == [LISBON]
