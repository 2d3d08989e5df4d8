"""Promotions, patches, deletes and prompts of 004 over a real port."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from perdure.domain.clock import MonotonicClock
from perdure.domain.filter import eq
from perdure.frontends.server.app import background_scheduler
from tests.engine.team.teams import MovedClock
from tests.frontends.server.running import SECRET, Running
from tests.frontends.server.teams import Team, detail

pytestmark = pytest.mark.covers(
    "X28",
    "X29",
    "X30",
    "X31",
    "X32",
    "X40",
    "X41",
    "X42",
    "X43",
    "X44",
    "X45",
    "X46",
    "X47",
    "X48",
    "X49",
    "X50",
    "X51",
    "X52",
    "X53",
    "X54",
    "X55",
    "X68",
)

NOBODYS = "mem_" + "0" * 32
SERVER = {"env": {"PERDURE_JWT_SECRET": SECRET}}


def ask_for(team: Team, id: str, level: str = "VALIDATED", **changes: Any) -> Any:
    body = {"item_id": id, "target_level": level, "justification": "checked", **changes}
    return team.ask("POST", "/v1/promotions", json=body)


# ------------------------------------------------------------------ search
@pytest.mark.covers("X28", "X29", "X31")
@pytest.mark.parametrize(
    "query",
    ["", "q=", "q=x&limit=0", "q=x&limit=101", "q=x&limit=ten", "q=x&truth_level_min=TRUE", "q=x&visibility=all",
     "q=x&project_scope=", "q=%20", "q=x&projet_scope=legal"],
)  # fmt: skip
def test_wrong_arguments_are_422(team: Team, query: str) -> None:
    answer = team.ask("GET", f"/v1/memory/search?{query}")
    assert answer.status_code == 422 and detail(answer)


@pytest.mark.covers("X27", "X29", "X30", "X31")
def test_a_flat_list_of_what_was_asked_for(team: Team) -> None:
    for number, level in enumerate(("EPHEMERAL", "WORKING", "VALIDATED", "CANONICAL")):
        team.stored(f"Target {level}", source=f"a:{number}", truth_level=level, project_scope=level.lower())
    found = team.search()
    assert isinstance(found, list) and len(found) == 4
    for each in found:
        assert {"id", "content", "score", "team_scope", "project_scope", "truth_level", "confidence", "source"} <= {
            *each
        }
        assert 0 <= each["score"] <= 1
    scores = [each["score"] for each in found]
    assert scores == sorted(scores, reverse=True)
    assert {each["truth_level"] for each in team.search(truth_level_min="WORKING")} == {
        "WORKING", "VALIDATED", "CANONICAL",
    }  # fmt: skip
    assert [each["truth_level"] for each in team.search(truth_level_min="CANONICAL")] == ["CANONICAL"]
    assert [each["content"] for each in team.search(project_scope="validated")] == ["Target VALIDATED"]
    assert len(team.search(limit=2)) == 2


# ------------------------------------------------------------------ promotions
@pytest.mark.covers("X40", "X49", "X50")
def test_what_cannot_be_asked_for(team: Team) -> None:
    id = team.stored()
    for level in ("EPHEMERAL", "WORKING", "CANONICAL", "PUBLIC", "BEST"):
        answer = ask_for(team, id, level)
        assert answer.status_code == 422, level
    assert "allowed: VALIDATED" in detail(ask_for(team, id, "CANONICAL"))
    for changes in ({"justification": ""}, {"justification": " "}, {"item_id": 5}, {"why": "x"}):
        assert ask_for(team, id, **changes).status_code == 422
    for missing in ("item_id", "target_level", "justification"):
        body = {"item_id": id, "target_level": "VALIDATED", "justification": "x"}
        del body[missing]
        assert missing in detail(team.ask("POST", "/v1/promotions", json=body))
    assert team.ask("GET", "/v1/promotions").json() == {"promotions": []}
    assert team.ask("GET", f"/v1/memory/{id}").json()["truth_level"] == "WORKING"


@pytest.mark.covers("X42", "X43", "X44", "X45", "X46", "X47")
def test_how_it_is_decided(team: Team) -> None:
    id = team.stored()
    path = f"/v1/promotions/{ask_for(team, id).json()['promotion_id']}"
    for decision in ("maybe", None, ""):
        assert team.ask("PATCH", path, json={"decision": decision}, role="admin").status_code == 422
    for role in ("member", "service", "reader"):
        assert team.ask("PATCH", path, json={"decision": "approved"}, role=role).status_code == 403
    for unknown in ("0", NOBODYS, "00000000-0000-4000-8000-000000000000"):
        answer = team.ask("PATCH", f"/v1/promotions/{unknown}", json={"decision": "approved"}, role="admin")
        assert answer.status_code == 404
    assert ask_for(team, NOBODYS).status_code == ask_for(team, "mem_abc123").status_code == 404

    rejected = team.ask("PATCH", path, json={"decision": "rejected", "note": "no"}, role="admin")
    assert rejected.status_code == 200 and rejected.json()["new_truth_level"] == "WORKING"
    for decision in ("approved", "rejected"):
        assert team.ask("PATCH", path, json={"decision": decision}, role="admin").status_code == 409
    assert team.ask("GET", f"/v1/memory/{id}").json()["truth_level"] == "WORKING"

    again = ask_for(team, id).json()["id"]
    done = team.ask("PATCH", f"/v1/promotions/{again}", json={"decision": "approved"}, role="admin")
    assert (done.status_code, done.json()["new_truth_level"]) == (200, "VALIDATED")
    found = team.ask("GET", f"/v1/memory/{id}").json()
    assert (found["truth_level"], found["validation_status"]) == ("VALIDATED", "approved"), "X54"
    listed = team.ask("GET", "/v1/promotions?status=approved").json()["promotions"]
    assert [each["id"] for each in listed] == [again]
    assert listed[0]["votes"][0]["by"] == "alice"
    lines = team.ask("GET", "/v1/audit", role="admin").json()["entries"]
    assert [line["action"] for line in lines] == [
        "upsert", "promotion.requested", "promotion.rejected", "promotion.requested", "promotion.approved",
    ]  # fmt: skip
    assert "2M€" not in str(lines) and "checked" not in str(lines)


@pytest.mark.covers("X50")
def test_working_is_given_at_once(team: Team) -> None:
    id = team.stored(truth_level="EPHEMERAL")
    assert team.ask("GET", f"/v1/memory/{id}").json()["expires_at"] is not None
    asked = ask_for(team, id, "WORKING")
    assert (asked.status_code, asked.json()["status"]) == (201, "approved")
    found = team.ask("GET", f"/v1/memory/{id}").json()
    assert (found["truth_level"], found["expires_at"]) == ("WORKING", None), "X38"


@pytest.mark.covers("X42")
def test_the_level_goes_to_public_one_step_at_a_time(team: Team) -> None:
    id = team.stored(truth_level="EPHEMERAL")
    team.promote(id, "WORKING", "VALIDATED", "CANONICAL", "PUBLIC")
    assert team.ask("GET", f"/v1/memory/{id}").json()["truth_level"] == "PUBLIC"
    assert ask_for(team, id, "PUBLIC").status_code == 422
    assert len(team.ask("GET", f"/v1/memory/{id}/history").json()["history"]) == 5


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "status=open", "level=PUBLIC"])
def test_a_list_of_promotions_is_asked_for_in_known_words(team: Team, query: str) -> None:
    assert team.ask("GET", f"/v1/promotions?{query}").status_code == 422


# ------------------------------------------------------------------ patch, delete
@pytest.mark.covers("X51", "X52", "X53")
def test_a_patch(team: Team) -> None:
    id = team.stored(metadata={"a": 1})
    for body in ({"truth_level": "VALIDATED"}, {"patch": {"truth_level": "WORKING"}}, {"truth_level": None}):
        answer = team.ask("PATCH", f"/v1/memory/{id}", json=body, role="admin")
        assert answer.status_code == 405 and "promotion" in detail(answer)
    changes: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"content": "Now 3M€"}, {"content": "Now 3M€"}),
        ({"project_scope": None}, {"project_scope": None}),
        ({"project_scope": "legal", "confidence": 0}, {"project_scope": "legal", "confidence": 0}),
        ({"patch": {"validation_status": "rejected"}}, {"validation_status": "rejected"}),
        ({"metadata": {"b": 2}}, {"metadata": {"a": 1, "b": 2}}),
        ({"visibility": "private"}, {"visibility": "private"}),
    ]
    for body, expected in changes:
        answer = team.ask("PATCH", f"/v1/memory/{id}", json=body)
        assert answer.status_code == 200
        assert answer.json() | expected == answer.json()
    found = team.ask("GET", f"/v1/memory/{id}").json()
    assert (found["content"], found["truth_level"], found["source"]) == ("Now 3M€", "WORKING", "librechat:conv_abc123")
    for wrong in (
        {}, {"content": ""}, {"content": None}, {"confidence": 2}, {"visibility": "all"}, {"source": "a:b"},
        {"team_scope": "avalon"}, {"contents": "x"}, {"validation_status": "n/a"}, {"patch": {}},
        {"visibility": "project", "project_scope": None},
    ):  # fmt: skip
        assert team.ask("PATCH", f"/v1/memory/{id}", json=wrong).status_code == 422, wrong
    for unknown in (NOBODYS, "mem_abc123", "upsert"):
        assert team.ask("PATCH", f"/v1/memory/{unknown}", json={"confidence": 1}).status_code == 404
    assert team.ask("PATCH", f"/v1/memory/{id}", "bob", json={"confidence": 1}).status_code == 404


@pytest.mark.covers("U16", "X68")
def test_get_history_and_delete(team: Team) -> None:
    id = team.stored()
    bare = id.removeprefix("mem_")
    dashed = "-".join((bare[:8], bare[8:12], bare[12:16], bare[16:20], bare[20:]))
    for form in (id, bare, dashed, f"mem_{dashed}", f"{id}/"):
        answer = team.ask("GET", f"/v1/memory/{form}")
        assert (answer.status_code, answer.json()["id"]) == (200, id)
    assert team.ask("DELETE", f"/v1/memory/{id}?erase=maybe").status_code == 422
    assert team.ask("DELETE", f"/v1/memory/{id}", role="reader").status_code == 403
    gone = team.ask("DELETE", f"/v1/memory/{dashed}")
    assert (gone.status_code, gone.json()["success"]) == (200, True)
    for method in ("GET", "DELETE"):
        assert team.ask(method, f"/v1/memory/{id}").status_code == 404
    assert [row["event"] for row in team.ask("GET", f"/v1/memory/{id}/history").json()["history"]] == ["ADD", "DELETE"]
    erased = team.stored("Rosebud")
    assert team.ask("DELETE", f"/v1/memory/{erased}?erase=true").status_code == 200
    assert team.ask("GET", f"/v1/memory/{erased}/history").status_code == 404
    for unknown in (NOBODYS, "mem_abc123"):
        for path in (f"/v1/memory/{unknown}", f"/v1/memory/{unknown}/history"):
            answer = team.ask("GET", path)
            assert answer.status_code == 404 and detail(answer)


def test_the_audit_is_for_admins(team: Team) -> None:
    id = team.stored()
    for role in ("member", "service", "reader"):
        assert team.ask("GET", "/v1/audit", role=role).status_code == 403
    first = team.ask("GET", "/v1/audit?limit=1", role="admin").json()["entries"]
    assert [line["action"] for line in first] == ["upsert"]
    assert team.ask("GET", f"/v1/audit?after={first[0]['id']}", role="admin").json() == {"entries": []}
    assert len(team.ask("GET", f"/v1/audit?subject_id={id}", role="admin").json()["entries"]) == 1
    assert team.ask("GET", f"/v1/audit?subject_id={NOBODYS}", role="admin").json() == {"entries": []}


# ------------------------------------------------------------------ system prompt
@pytest.mark.covers("X55")
def test_what_is_canonical_goes_into_a_system_prompt(team: Team) -> None:
    team.stored("The target is 2M€ " + "and more " * 60, truth_level="CANONICAL")
    team.stored("A rumoured target", source="a:2")
    path = "/v1/system-prompt?query=target"
    found = team.ask("GET", path).json()
    assert set(found) == {"system_addendum", "fact_count"} and found["fact_count"] == 1
    assert "2M€" in found["system_addendum"] and "rumoured" not in found["system_addendum"]
    assert team.ask("GET", f"{path}&min_level=WORKING").json()["fact_count"] == 2
    assert team.ask("GET", f"{path}&min_level=WORKING&top_k=1").json()["fact_count"] == 1
    for wrong in ("", "?query=", "?query=x&top_k=0", "?query=x&min_level=BEST", "?q=x"):
        assert team.ask("GET", f"/v1/system-prompt{wrong}").status_code == 422
    headers = {**team.headers(), "Accept": "text/plain"}
    plain = team.server.client.get(path, headers=headers)
    assert plain.headers["content-type"].startswith("text/plain") and plain.text == found["system_addendum"]


@pytest.mark.covers("U22")
def test_team_mode_is_refused_where_only_personal_memory_is(team: Team) -> None:
    for method, path, body in (
        ("GET", "/v1/memories?user_id=alice", None),
        ("POST", "/v1/memories", {"messages": "I like tea", "user_id": "alice"}),
        ("GET", "/v1/memory?user_id=alice", None),
        ("POST", "/v1/memory", {"content": "x", "user_id": "alice"}),
    ):
        assert team.ask(method, path, json=body).status_code == 403, path


@pytest.mark.covers("X38")
@pytest.mark.parametrize("server", [{"env": {"PERDURE_JWT_SECRET": SECRET}}], indirect=True)
def test_a_server_sweeps_what_has_expired(server: Running) -> None:
    clock = MovedClock()
    kernel = server.service.engine.kernel
    kernel.clock = MonotonicClock(clock)
    team = Team(server)
    raw, kept = team.stored(truth_level="EPHEMERAL"), team.stored(source="a:1")
    clock.ahead = timedelta(days=31)

    async def rows(wait: float) -> int:
        async with background_scheduler(server.service.memory):
            for _ in range(int(wait / 0.01)):
                await asyncio.sleep(0.01)
                if await kernel.store.get(kernel.collection, str(UUID(raw.removeprefix("mem_")))) is None:
                    break
        return await kernel.store.count(kernel.collection, eq("state", "live"))

    assert server.wait(rows(30)) == 1
    assert team.ask("GET", f"/v1/memory/{raw}").status_code == 404
    assert team.ask("GET", f"/v1/memory/{kept}").status_code == 200
    assert team.ask("GET", "/v1/audit", role="admin").json()["entries"][-1]["action"] == "expire"
