"""A fuzzer over every route with two tenants: nothing of one is ever told to the other, or changed by them.

Both are tenant and stranger in turn. A route, or anything that one takes, of which the fuzzer does not know fails.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from perdure.domain.access import Caller
from perdure.domain.scope import Scope
from perdure.frontends.server.middleware.auth import AuthMiddleware
from perdure.frontends.server.routes.mcp import METHODS, PATHS
from tests.frontends.gateway.scripts import Reply, completion
from tests.frontends.gateway.upstream import Upstream, upstream
from tests.frontends.server.hostile import (
    HELD_OFF,
    IDS,
    Aim,
    Filler,
    Operation,
    Request,
    attackers,
    operations,
    routed,
    unknown,
)
from tests.frontends.server.hostile_world import Tenant
from tests.frontends.server.running import SECRET, Running, running

pytestmark = pytest.mark.covers("U22", "X33")

PAGES = {"GET /openapi.json", "GET /docs"}
"""What is no operation: the document, and the pages that show it."""
ROUNDS: tuple[Aim, ...] = ("bare", "aimed", "free")
"""Requests of each stranger to each operation, besides those that name a thing by its id."""
DRAWN = 2 * settings().max_examples
FOR_EVERYBODY = {"/healthz", "/readyz", "/v1/healthz", "/v1/memory/search", "/metrics", "/v1/ping"}
PASSING = {
    f"{version}{path}"
    for version in ("/v1", "")
    for path in (
        *("/chat/completions", "/responses"),
        *("/responses/{response_id}", "/responses/{response_id}/input_items"),
    )
}
"""What passes to the model's server for whoever has credentials of its own, without memory."""


@dataclass(frozen=True)
class World:
    server: Running
    model: Upstream
    tenants: list[Tenant]
    operations: list[Operation]

    def sides(self, order: int) -> tuple[Tenant, Tenant]:
        """Whose data it is, and whose the requests are; each starts whole, for a stranger may clear what is its own."""
        pair = [Tenant(self.server, f"{name}-{len(self.tenants)}") for name in ("one", "two")]
        self.tenants.extend(pair)
        return (pair[0], pair[1]) if order == 0 else (pair[1], pair[0])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    env = {"PERDURE_JWT_SECRET": SECRET}
    graph = {"provider": "sqlite"}
    # What the tenants said themselves is not read meanwhile: it would look like something that was changed.
    with (
        upstream(responses=False) as model,  # it echoes: what memory tells it is seen
        running(
            tmp_path_factory.mktemp("fuzz"),
            env=env,
            graph_store=graph,
            gateway={"upstream": {"base_url": model.url}, "quiet_seconds": 0},
        ) as server,
    ):
        yield World(server, model, [], operations(server.app))


both_ways = pytest.mark.parametrize("order", [0, 1], ids=["two-asks-for-one", "one-asks-for-two"])


class Watch:
    """Sends requests and looks at what comes back, what the model's server was sent, and what became of the data."""

    def __init__(self, world: World, his: Tenant) -> None:
        self._world, self._his = world, his
        self._secrets = [*his.words, *(id for ids in his.ids.values() for id in ids if id != his.published)]
        self.before = his.everything()
        assert sum(word in self.before for word in his.words) > 20, "there is something to tell"
        self._held = self._now()
        self.statuses: dict[int, int] = {}

    def _now(self) -> list[object]:
        return self._world.server.wait(self._his.held())

    def send(self, request: Request) -> int:
        """The status; AssertionError where something was told or changed, or the server failed."""
        self._world.model.seen.clear()
        answer = self._world.server.client.request(
            request.operation.method, request.path, params=request.params, headers=request.headers, json=request.body
        )
        told = f"{request.told} answered {answer.status_code}: {answer.text[:2000]}"
        assert answer.status_code < 500 or '"not_implemented"' in answer.text, told
        sent = " ".join(f"{each.path} {each.target} {each.headers} {each.body!r}" for each in self._world.model.seen)
        for where, text in (("went to the model", sent), ("came back", f"{answer.text} {dict(answer.headers)}")):
            found = [secret for secret in self._secrets if secret in text and not request.names(secret)]
            leaked = {*found} - self._his.given_away
            assert not leaked, f"{leaked} {where}: {told}"
        if answer.status_code < 300 and not request.operation.only_reads:
            self._his.given_away |= {id for ids in self._his.ids.values() for id in ids if request.names(id)}
            assert self._now() == self._held, f"something was changed: {told}"
        self.statuses[answer.status_code] = self.statuses.get(answer.status_code, 0) + 1
        return answer.status_code


# ------------------------------------------------------------------ what is known
def test_the_fuzzer_knows_every_route_and_all_that_each_takes(world: World) -> None:
    passed_on = {f"{method} /{{path}}" for method in ("GET", "PUT", "POST", "PATCH", "DELETE")}
    below = {f"{version}/responses/{{response_id}}/{{rest}}" for version in ("/v1", "")}
    passed_on |= {f"{method} {path}" for method in ("GET", "POST", "DELETE") for path in below}
    tools = {f"{method} {path}" for method in METHODS for path in PATHS}  # tests/frontends/mcp/test_http.py
    assert {each.label for each in world.operations} == routed(world.server.app) - PAGES - passed_on - tools
    missing = {each.label: unknown(each) for each in world.operations if unknown(each)}
    assert not missing, f"say in hostile.KNOWN what a stranger would put there: {missing}"


def test_everybody_finds_their_own_by_the_same_requests(world: World) -> None:
    """Or nothing below would prove anything."""
    his, mine = world.sides(0)
    chance = random.Random(1)
    told: dict[str, set[str]] = {}
    for who in (his.by_user, his.by_project, his.by_token):
        filler = Filler(his, mine, chance)
        for operation in (
            each for each in world.operations if each.only_reads or each.path.endswith(("search", "entities"))
        ):
            ids = [id for kind in his.ids.values() for id in kind] if IDS & {*operation.places} else [None] * 8
            for id in ids:
                request = filler.request(operation, list(who.items()), "bare", id)
                answer = world.server.client.request(
                    operation.method, request.path, params=request.params, headers=who, json=request.body
                )
                found = {word for word in his.words if word in answer.text and not request.names(word)}
                told.setdefault(operation.label, set()).update(found)
    for label in (
        "GET /v1/memories", "GET /v1/memories/{id}", "GET /v1/memories/{id}/history", "GET /v1/event/{id}",
        "GET /v1/events", "GET /v1/entities", "GET /v1/memory", "GET /v1/memory/{memory_id}", "GET /v1/promotions",
        "GET /v1/memory/search", "GET /v1/system-prompt", "POST /v3/memories/search", "GET /memories", "POST /search",
        "POST /v1/entities", "GET /v1/graph/neighbors",
    ):  # fmt: skip
        assert told[label], label


# ------------------------------------------------------------------ what is asked
@both_ways
def test_no_id_opens_anything(world: World, order: int) -> None:
    his, mine = world.sides(order)
    watch, filler = Watch(world, his), Filler(his, mine, random.Random(2))
    ids = [id for kind in ("memory", "event", "promotion", "response") for id in his.ids[kind]]
    named = [each for each in world.operations if IDS & {*each.places} and not each.is_absent]
    for turn, headers in enumerate(attackers(his, mine).values()):
        for operation in named:
            for id in ids[turn % 4 :: 4]:
                assert watch.send(filler.request(operation, headers, "bare", id)) >= 400, (operation, id)
    assert his.everything() == watch.before


@both_ways
def test_no_route_tells_or_changes_anything(world: World, order: int) -> None:
    his, mine = world.sides(order)
    watch, filler = Watch(world, his), Filler(his, mine, random.Random(3))
    for who, headers in attackers(his, mine).items():
        for operation in world.operations:
            for aim in ROUNDS[:1] if operation.is_absent or who in HELD_OFF else ROUNDS:
                status = watch.send(filler.request(operation, headers, aim))
                is_public = operation.path in FOR_EVERYBODY | PASSING
                assert status in (401, 403) or who not in HELD_OFF or is_public, operation
    assert {200, 400, 401, 403, 404, 422} <= {*watch.statuses}, watch.statuses
    assert his.everything() == watch.before


@both_ways
def test_no_request_that_can_be_drawn_does(world: World, order: int) -> None:
    his, mine = world.sides(order)
    watch, people = Watch(world, his), attackers(his, mine)
    served = [each for each in world.operations if not each.is_absent]

    @settings(
        max_examples=DRAWN,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.sampled_from(served), st.sampled_from(sorted(people)), st.sampled_from(ROUNDS), st.randoms())
    def one(operation: Operation, who: str, aim: Aim, chance: random.Random) -> None:
        watch.send(Filler(his, mine, chance).request(operation, people[who], aim))

    one()
    assert his.everything() == watch.before


# ------------------------------------------------------------------ whether it would be noticed
def test_a_door_without_walls_is_noticed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    his, mine = world.sides(0)
    real = AuthMiddleware.caller

    async def without(self: AuthMiddleware, *arguments: object) -> Caller:
        return replace(await real(self, *arguments), walls=Scope())  # type: ignore[arg-type]

    watch = Watch(world, his)
    monkeypatch.setattr(AuthMiddleware, "caller", without)
    reads = [each for each in world.operations if each.only_reads and not each.is_absent]
    filler = Filler(his, mine, random.Random(4))
    noticed = set()
    for operation in reads:
        is_named = bool(IDS & {*operation.places})
        for id in [*his.ids["memory"], *his.ids["event"]] if is_named else [None] * 30:
            aim: Aim = "bare" if is_named else "aimed"
            try:
                watch.send(filler.request(operation, list(mine.by_user.items()), aim, id))
            except AssertionError:
                noticed.add(operation.label)
    assert {
        "GET /v1/memories", "GET /v1/memories/{id}", "GET /v1/memories/{id}/history", "GET /v1/memory/{memory_id}",
        "GET /v1/event/{id}", "GET /v1/entities", "GET /memories",
    } <= noticed  # fmt: skip


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
def test_a_gateway_without_walls_is_noticed_by_what_the_model_is_sent(
    world: World, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """The answers of a model that repeats nothing would not show it: what went up does."""
    his, mine = world.sides(0)
    real = AuthMiddleware.model_caller

    async def without(self: AuthMiddleware, *arguments: object) -> Caller:
        return replace(await real(self, *arguments), walls=Scope())  # type: ignore[arg-type]

    watch, filler = Watch(world, his), Filler(his, mine, random.Random(5))
    (operation,) = (each for each in world.operations if each.path == path and each.method == "POST")

    def noticed(most: int) -> str:
        for number in range(most):
            try:
                watch.send(filler.request(operation, list(mine.by_user.items()), ("aimed", "free")[number % 2]))
            except AssertionError as error:
                return str(error)
        return ""

    world.model.always("/v1/chat/completions", Reply.of_json(completion("I do not know")))
    try:
        assert noticed(60) == ""
        monkeypatch.setattr(AuthMiddleware, "model_caller", without)
        assert "went to the model" in noticed(600)
    finally:
        world.model.always("/v1/chat/completions", None)
