"""Who is let in: keys in every form, open servers, walls, roles."""

from __future__ import annotations

import httpx
import pytest

from tests.frontends.server.running import Running, as_member, bearer, token

pytestmark = pytest.mark.covers("U6", "U22", "U25")

NOBODYS = "perdure_" + "0" * 64


def who(server: Running, **headers: str) -> httpx.Response:
    return server.client.get("/probe/caller", headers=headers)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": f"Bearer {NOBODYS}"},
        {"Authorization": "Token m0-of-somebody-else"},
        {"Authorization": "Bearer not.a.token"},
        {"X-API-Key": "anything"},
    ],
    ids=["none", "unknown", "foreign", "bad-token", "x-api-key"],
)
def test_an_open_server_ignores_keys_that_it_does_not_know(probed: Running, headers: dict[str, str]) -> None:
    answer = who(probed, **headers)
    assert answer.status_code == 200
    assert answer.json() | {"name": "anonymous", "known": False, "walls": {}} == answer.json()


@pytest.mark.covers("U25")
def test_a_key_is_taken_in_each_of_its_forms(probed: Running) -> None:
    secret = probed.key("app")
    for headers in (
        {"Authorization": f"Bearer {secret}"},
        {"Authorization": f"bearer {secret}"},
        {"Authorization": f"Token {secret}"},
        {"X-API-Key": secret},
        {"X-API-Key": secret, "Authorization": "Bearer sk-of-the-upstream"},
    ):
        answer = who(probed, **headers)
        assert answer.status_code == 200, headers
        assert (answer.json()["name"], answer.json()["known"]) == ("app", True)


@pytest.mark.covers("U6")
def test_headers_that_name_two_are_nobodys(probed: Running) -> None:
    for headers in (
        [("x-authz-user-id", "ana"), ("X-Authz-User-Id", "bob")], [("x-authz-user-id", ""), ("x-authz-user-id", "bob")],
        [*as_member("red").items(), ("x-team-scope", "blue")],
    ):  # fmt: skip
        assert probed.client.get("/probe/user", headers=headers).status_code == 403, headers
    same = [("x-authz-user-id", "ana"), ("x-authz-user-id", "ana")]
    assert probed.client.get("/probe/user", headers=same).json() == {"user": "ana"}


@pytest.mark.covers("U25")
def test_a_key_is_found_among_others(probed: Running) -> None:
    secret = probed.key("app")
    for headers in (
        [("X-API-Key", "theirs"), ("X-API-Key", secret)], [("X-API-Key", secret), ("X-API-Key", NOBODYS)],
        [("Authorization", "Bearer sk-theirs"), ("Authorization", f"Bearer {secret}")],
        [("Authorization", f"Bearer {NOBODYS}"), ("X-API-Key", secret)],
    ):  # fmt: skip
        answer = probed.client.get("/probe/caller", headers=headers)
        assert (answer.status_code, answer.json().get("name")) == (200, "app"), headers
    many = [("X-API-Key", f"guess-{number}") for number in range(50)]
    assert probed.client.get("/probe/caller", headers=[*many, ("X-API-Key", secret)]).status_code == 401


def test_once_a_key_exists_every_address_asks_for_one_for_ever(probed: Running) -> None:
    assert who(probed).status_code == 200
    secret = probed.key("app")
    for headers in ({}, bearer(NOBODYS), {"Authorization": secret}, {"Authorization": f"Basic {secret}"}):
        answer = who(probed, **headers)
        assert answer.status_code == 401, headers
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    probed.revoke("app")
    assert who(probed, **bearer(secret)).status_code == 401, "a revoked key is none"
    assert who(probed).status_code == 401, "and does not open the server again"


@pytest.mark.parametrize("probed", [{"is_open": False}], indirect=True)
def test_a_server_that_is_not_open_asks_before_any_key_exists(probed: Running) -> None:
    assert who(probed).status_code == 401


def test_what_needs_no_key_and_what_does(probed: Running) -> None:
    probed.key("app")
    for path in ("/healthz", "/readyz", "/v1/healthz"):
        assert probed.client.get(path).status_code == 200, path
    for path in ("/metrics", "/openapi.json", "/docs", "/no/such/route", "/v1/memory/search/x"):
        assert probed.client.get(path).status_code == 401, path
    # X36: PUBLIC facts are read without credentials, and with wrong ones; only read, and only there.
    for headers in ({}, bearer(NOBODYS)):
        assert probed.client.get("/v1/memory/search", params={"q": "x"}, headers=headers).status_code != 401
    assert probed.client.post("/v1/memory/search", json={}).status_code == 401
    assert probed.client.get("/v1/memory/search", params={"q": "x"}, headers={"X-Team-Scope": "a"}).status_code == 401


def test_a_malformed_body_is_not_even_read_of_who_may_not_ask(probed: Running) -> None:
    probed.key("app")
    answer = probed.client.post("/v1/memories/probe", content=b"{", headers={"Content-Type": "application/json"})
    assert answer.status_code == 401


def test_a_reader_reads_and_does_not_write(probed: Running) -> None:
    reads = bearer(probed.key("watcher", role="reader"))
    assert who(probed, **reads).json()["role"] == "reader"
    for method, path in (
        ("POST", "/v1/memories/probe"),
        ("PUT", "/v1/memories/x"),
        ("PATCH", "/v1/memory/x"),
        ("DELETE", "/v1/memories/x"),
        ("POST", "/v1/memory"),
        ("POST", "/v1/reset"),
    ):
        answer = probed.client.request(method, path, headers=reads, json={"count": 1})
        assert answer.status_code == 403, (method, path)
    for path in ("/v3/memories/search", "/search", "/v3/memories/"):
        assert probed.client.post(path, headers=reads, json={}).status_code != 403, path


@pytest.mark.covers("U26")
def test_only_an_admin_resets_where_keys_exist(probed: Running) -> None:
    assert probed.client.post("/probe/reset").status_code == 200, "nobody is told apart yet"
    for role, status in (("member", 403), ("service", 403), ("admin", 200)):
        headers = bearer(probed.key(role, role=role))  # type: ignore[arg-type]
        assert probed.client.post("/probe/reset", headers=headers).status_code == status


def test_the_walls_of_a_key_are_its_callers(probed: Running) -> None:
    headers = bearer(probed.key("apollo", project_id="apollo", user_id="ana"))
    found = who(probed, **headers).json()
    assert found["walls"] == {"project_id": "apollo", "user_id": "ana"}
    assert found["projects"] == ["apollo"]
    assert probed.client.get("/probe/personal", headers=headers).status_code == 200


# ------------------------------------------------------------------ teams


@pytest.mark.covers("X25", "X30")
def test_a_teams_memory_needs_a_token_or_key_of_that_team(probed: Running) -> None:
    assert who(probed, **{"X-Team-Scope": "red"}).status_code == 401, "also where the server is open"
    assert who(probed, **{"X-Team-Scope": "red"}, **bearer(NOBODYS)).status_code == 401
    found = who(probed, **as_member("red", projects=["apollo"], role="admin")).json()
    assert found == {
        "name": "ana",
        "role": "admin",
        "walls": {"team_id": "red"},
        "subject": "ana",
        "teams": ["red"],
        "projects": ["apollo"],
        "known": True,
    }
    assert who(probed, **bearer(token(teams=["red", "blue"])), **{"X-Team-Scope": "blue"}).status_code == 200
    for headers in (as_member("red") | {"X-Team-Scope": "blue"}, bearer(token()) | {"X-Team-Scope": "red"}):
        assert who(probed, **headers).status_code == 403


def test_a_key_of_a_team_is_good_for_it_and_for_nothing_else(probed: Running) -> None:
    headers = bearer(probed.key("bot", team_id="red", project_id="apollo", role="service"))
    found = who(probed, **headers, **{"X-Team-Scope": "red"}).json()
    assert found["walls"] == {"team_id": "red", "project_id": "apollo"}
    assert found["subject"] == "key:bot"
    assert who(probed, **headers, **{"X-Team-Scope": "blue"}).status_code == 403
    assert probed.client.get("/probe/personal", headers=headers).status_code == 403
    assert probed.client.get("/v1/memories", params={"user_id": "ana"}, headers=headers).status_code == 403
    assert probed.client.get("/docs", headers=headers).status_code == 200
    # X36: without X-Team-Scope a search reads what is PUBLIC, whoever asks, and nothing is written.
    assert probed.client.get("/v1/memory/search", params={"q": "x"}, headers=headers).status_code == 200
    assert probed.client.post("/v1/memory/upsert", json={}, headers=headers).status_code == 403
    other = bearer(probed.key("admin", role="admin"))
    assert who(probed, **other, **{"X-Team-Scope": "red"}).status_code == 403, "its walls name no team"


def test_a_token_outside_of_a_team_sees_its_subjects_memory_alone(probed: Running) -> None:
    assert who(probed, **bearer(token("ana", team="red"))).json()["walls"] == {"user_id": "ana"}


# ------------------------------------------------------------------ whose memory (U6, V53)


def user(server: Running, given: str | None = None, **headers: str) -> httpx.Response:
    return server.client.get("/probe/user", params={"user_id": given} if given else {}, headers=headers)


@pytest.mark.covers("U6")
def test_the_header_of_an_authenticating_proxy_beats_the_parameter(probed: Running) -> None:
    assert user(probed, "mallory", **{"x-authz-user-id": "ana"}).json() == {"user": "ana"}
    assert user(probed, "ana").json() == {"user": "ana"}
    assert user(probed).json() == {"user": None}
    assert user(probed, None, **bearer(token("ben"))).json() == {"user": "ben"}, "V53"


@pytest.mark.covers("U6")
@pytest.mark.parametrize("probed", [{"settings": {"trust_client_user_id": False}}], indirect=True)
def test_behind_an_authenticating_proxy_a_user_id_of_the_client_is_not_believed(probed: Running) -> None:
    assert user(probed, "ana").status_code == 401
    assert user(probed, "ana", **bearer(probed.key("app"))).status_code == 401
    headers = {"x-authz-user-id": "ana", **bearer(probed.key("proxy"))}
    assert user(probed, "mallory", **headers).json() == {"user": "ana"}
