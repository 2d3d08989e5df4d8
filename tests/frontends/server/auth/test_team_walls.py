"""Every route of the server, asked by people of no team or of another: none tells a word of a team's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import httpx
import pytest

from tests.frontends.gateway.upstream import upstream
from tests.frontends.server.running import SECRET, Running, as_member, bearer, running, token
from tests.frontends.server.teams import Team

pytestmark = pytest.mark.covers("U22", "X33")

SECRET_WORD = "Rosebud"
CLEARS_ALL = {"/v1/reset", "/reset"}
"""What an admin may clear is everything, a team's memory too."""
BODIES: tuple[dict[str, Any], ...] = (
    {},
    {"query": SECRET_WORD, "user_id": "alice"},
    {"query": SECRET_WORD, "filters": {"user_id": "alice"}},
    {"query": SECRET_WORD, "filters": {"team_id": "camelot"}},
    {"filters": {"OR": [{"user_id": "*"}, {"team_id": "camelot"}]}},
    {"text": "changed", "content": "changed", "confidence": 1},
)


class World:
    """A server with one team's memory, and the ids by which somebody might ask for it."""

    def __init__(self, server: Running) -> None:
        self.server = server
        self.team = Team(server)
        self.id = self.team.stored(f"The word is {SECRET_WORD}", metadata={"entities": [{"name": SECRET_WORD}]})
        private = {"visibility": "private", "source": "a:2"}
        self.private = self.team.stored(f"In private it is {SECRET_WORD}", **private)
        rows = self.team.ask("GET", f"/v1/memory/{self.id}/history").json()["history"]
        body = {"item_id": self.id, "target_level": "VALIDATED", "justification": SECRET_WORD}
        asked = self.team.ask("POST", "/v1/promotions", json=body).json()
        self.ids = [self.id, str(UUID(self.id.removeprefix("mem_"))), self.private, rows[0]["id"], asked["id"]]
        self.key = bearer(server.key("root", role="admin"))


STRANGERS: dict[str, Callable[[World], dict[str, str]]] = {
    "another team": lambda world: as_member("avalon", "alice", role="admin", projects=["fundraising"]),
    "the author without the team": lambda world: bearer(token("alice", team=world.team.name, role="admin")),
    "an admin key": lambda world: world.key,
    "nobody": lambda world: {},
}
"""The headers of those who have no part in the team."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    graph = {"graph_store": {"provider": "sqlite"}}
    env = {"PERDURE_JWT_SECRET": SECRET}
    with upstream(responses=False) as model:  # it echoes: what memory tells it is seen
        served = {**graph, "gateway": {"upstream": {"base_url": model.url}}}
        with running(tmp_path_factory.mktemp("memory"), env=env, **served) as found:
            yield World(found)


VALUES = {
    "user_id": "alice", "q": "the word", "query": "the word", "entity": SECRET_WORD, "limit": 100,
    "min_level": "WORKING", "page": 1, "page_size": 100, "output_format": "v1.1",
}  # fmt: skip
"""What is asked for, where a route takes it."""


def operations(world: World) -> Iterator[tuple[str, str, dict[str, Any], bool]]:
    """Method, path with an id in each place, parameters, and whether there is a body, of every operation."""
    for path, item in world.server.client.get("/openapi.json", headers=world.key).json()["paths"].items():
        if path in CLEARS_ALL:
            continue
        for method in sorted({*item} & {"get", "post", "put", "patch", "delete"}):
            taken = {each["name"] for each in item[method].get("parameters", []) if each["in"] == "query"}
            params = {name: value for name, value in VALUES.items() if name in taken}
            for id in world.ids if "{" in path else world.ids[:1]:
                whole = "/".join(id if part.startswith("{") else part for part in path.split("/"))
                yield method, whole, params, "requestBody" in item[method]


def asked(world: World, headers: dict[str, str], *, only_read: bool = False) -> Iterator[tuple[str, httpx.Response]]:
    """The answer to every request, and what was asked; of what only reads alone, where that is said."""
    client = world.server.client
    for method, path, params, has_body in operations(world):
        if only_read and method != "get":
            continue
        for body in BODIES if has_body else (None,):
            answer = client.request(method, path, params=params, json=body, headers=headers)
            yield f"{method} {path} {params} {body}", answer
            if answer.status_code == 501:
                break


def test_a_member_is_told_by_the_same_requests(world: World) -> None:
    """Or what follows would prove nothing."""
    headers = world.team.headers("alice")
    told = [what for what, answer in asked(world, headers, only_read=True) if "word is" in answer.text]
    for path in ("/v1/memory/search", f"/v1/memory/{world.id}", f"/v1/memory/{world.id}/history", "/v1/system-prompt"):
        assert any(what.startswith(f"get {path} ") for what in told), path


@pytest.mark.parametrize("who", STRANGERS)
def test_no_route_tells_a_stranger_of_a_teams_memory(world: World, who: str) -> None:
    answers = list(asked(world, STRANGERS[who](world)))
    assert len(answers) > 100
    for what, answer in answers:
        assert "word is" not in answer.text and "private it" not in answer.text, (who, what)
        assert SECRET_WORD in what or SECRET_WORD not in answer.text, (who, what)
        assert answer.status_code < 500 or answer.status_code == 501, (who, what, answer.text)
    for id in (world.id, world.private):
        found = world.team.ask("GET", f"/v1/memory/{id}").json()
        assert SECRET_WORD in found["content"] and found["confidence"] == 0.9
        assert len(world.team.ask("GET", f"/v1/memory/{id}/history").json()["history"]) == 1
    assert world.team.ask("GET", "/v1/promotions?status=pending").json()["promotions"][0]["item_id"] == world.id
