"""The unmodified MemoryClient of mem0ai 2.2.1: entities, batches, feedback, exports, summaries, and the rest."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.frontends.server.mem0.clients import AsyncMemoryClient, MemoryClient, mem0_client, mem0_errors
from tests.frontends.server.running import Running, bearer, running


@pytest.fixture
def alone(server: Running) -> Iterator[MemoryClient]:
    """A client of a server that nobody else uses."""
    with mem0_client(server.url) as found:
        yield found


def keep(client: MemoryClient, text: str, **more: Any) -> str:
    id: str = client.add(text, infer=False, **more)["results"][0]["id"]
    return id


def test_entities_are_listed_and_deleted(server: Running, alone: MemoryClient) -> None:
    client = alone
    keep(client, "one", user_id="ana/né", run_id="r 1")
    keep(client, "two", user_id="ana/né", agent_id="helper", app_id="shop")
    keep(client, "three", user_id="bob")
    found = client.users()
    names = {(each["type"], each["name"], each["total_memories"]) for each in found["results"]}
    assert names == {
        ("user", "ana/né", 2), ("user", "bob", 1), ("agent", "helper", 1), ("run", "r 1", 1), ("app", "shop", 1)
    }  # fmt: skip
    assert (found["count"], found["total_users"], found["total_apps"]) == (5, 2, 1)
    client.delete_users(app_id="shop")
    assert {each["name"] for each in client.users()["results"]} == {"ana/né", "bob", "r 1"}
    client.delete_users(user_id="ana/né")
    assert [each["name"] for each in client.users()["results"]] == ["bob"]
    one = server.client.get("/v2/entities/user/bob/").json()
    assert (one["name"], one["total_memories"]) == ("bob", 1)
    assert server.client.get("/v2/entities/user/nobody/").status_code == 404
    (id,) = [each["id"] for each in client.get_all(filters={"user_id": "bob"})["results"]]
    assert server.client.delete("/v2/entities/user/bob/", params={"erase": True}).status_code == 200
    assert "three" not in server.client.get(f"/v1/memories/{id}/history").text
    assert server.client.delete("/v2/entities/team/bob/").status_code == 422


def test_reset_deletes_everybody(alone: MemoryClient) -> None:
    client = alone
    keep(client, "one", user_id="ana", agent_id="helper", run_id="r")
    keep(client, "two", user_id="bob")
    assert "successful" in client.reset()["message"]
    assert client.users()["results"] == []
    with pytest.raises(ValueError, match="No entities"):
        client.reset()


def test_batches(client: MemoryClient, who: str) -> None:
    ids = [keep(client, f"note {number}", user_id=who) for number in range(3)]
    told = client.batch_update(
        [{"memory_id": ids[0], "text": "note changed"}, {"memory_id": ids[1], "metadata": {"k": 1}}]
    )
    assert told == {"message": "Successfully updated 2 memories"}
    assert client.get(ids[0])["memory"] == "note changed" and client.get(ids[1])["metadata"] == {"k": 1}
    unknown = str(uuid.uuid4())
    with pytest.raises(mem0_errors.MemoryNotFoundError):
        client.batch_update([{"memory_id": ids[2], "text": "never"}, {"memory_id": unknown, "text": "x"}])
    with pytest.raises(mem0_errors.MemoryNotFoundError):
        client.batch_delete([{"memory_id": ids[2]}, {"memory_id": unknown}])
    assert client.get(ids[2])["memory"] == "note 2"
    for wrong in ([], [{"memory_id": ids[2]}], [{"memory_id": ids[2], "text": "x"}] * 1001):
        with pytest.raises(mem0_errors.ValidationError):
            client.batch_update(wrong)
    told = client.batch_delete([{"memory_id": id} for id in [*ids, ids[0]]])
    assert told == {"message": "Successfully deleted 3 memories"}
    assert client.get_all(filters={"user_id": who})["count"] == 0


def test_feedback_is_kept_and_can_be_filtered_by(client: MemoryClient, who: str) -> None:
    id = keep(client, "note", user_id=who)
    told = client.feedback(id, feedback="negative", feedback_reason="wrong year")
    assert (told["feedback"], told["feedback_reason"]) == ("NEGATIVE", "wrong year")
    listed = client.get_all(filters={"user_id": who, "feedback": "NEGATIVE"})["results"]
    assert [each["id"] for each in listed] == [id]
    assert client.feedback(id)["feedback"] is None
    assert client.get_all(filters={"user_id": who, "feedback": "NEGATIVE"})["results"] == []
    with pytest.raises(mem0_errors.MemoryNotFoundError):
        client.feedback(str(uuid.uuid4()), feedback="POSITIVE")


def test_exports(client: MemoryClient, who: str) -> None:
    keep(client, "note one", user_id=who, metadata={"topic": "tea"})
    keep(client, "note two", user_id=who)
    schema = {"type": "object", "properties": {"memory": {"type": "string"}, "topic": {"type": "string"}}}
    made = client.create_memory_export(schema, filters={"user_id": who})
    rows = client.get_memory_export(memory_export_id=made["id"])["memories"]
    assert rows == [{"memory": "note one", "topic": "tea"}, {"memory": "note two", "topic": None}]
    whole = client.get_memory_export(filters={"user_id": who})["memories"]
    assert [each["memory"] for each in whole] == ["note one", "note two"]
    by_id = client.create_memory_export('{"properties": {"memory": {}}}', user_id=who)
    assert len(client.get_memory_export(memory_export_id=by_id["id"])["memories"]) == 2
    with pytest.raises(mem0_errors.ValidationError, match="At least one of user_id"):
        client.create_memory_export(schema)
    with pytest.raises(mem0_errors.MemoryNotFoundError):
        client.get_memory_export(memory_export_id="nonsense")


def test_summary(client: MemoryClient, who: str) -> None:
    keep(client, "note one", user_id=who)
    keep(client, "note two", user_id=who)
    (found,) = client.get_summary(filters={"user_id": who})
    assert found == {"summary": "- note one\n- note two", "memory_count": 2, "user_id": who}


def test_events_tell_what_happened(client: MemoryClient, shared: Running, who: str) -> None:
    id = keep(client, "note one", user_id=who)
    client.update(id, text="note two")
    client.delete(id)
    first = shared.client.get("/v1/events/", params={"user_id": who, "page_size": 2}).json()
    rest = shared.client.get(first["next"]).json()
    events = first["results"] + rest["results"]
    assert [(each["event_type"], each["status"]) for each in events] == [
        ("ADD", "SUCCEEDED"), ("UPDATE", "SUCCEEDED"), ("DELETE", "SUCCEEDED")
    ]  # fmt: skip
    assert shared.client.get(f"/v1/event/{events[1]['id']}/").json() == events[1]
    assert events[1]["results"][0]["data"] == {"memory": "note two"}


def test_project_settings_are_kept(tmp_path: Path) -> None:
    wanted = {"custom_instructions": "Only drinks", "custom_categories": [{"taste": "what they like"}], "decay": True}
    with running(tmp_path / "memory") as server, mem0_client(server.url) as client:
        assert client.project.get(fields=["custom_instructions", "decay"]) == {
            "custom_instructions": None,
            "decay": False,
        }
        told = client.project.update(**wanted)
        assert told["message"] and len(told["warnings"]) == 3  # two change nothing, and no model reads the third
        client.update_project(multilingual=False)
        with pytest.raises(mem0_errors.ValidationError):
            client.project.update(custom_categories="taste")
    with running(tmp_path / "memory") as server, mem0_client(server.url) as client:
        found = client.get_project()
        assert {name: found[name] for name in wanted} == wanted and found["multilingual"] is False
        server.client.post("/v1/reset", json={"confirm": True}).raise_for_status()
        assert client.project.get(fields=["decay"]) == {"decay": True}
        member = server.key("member")
        bound = server.key("bound", role="admin", project_id="p")
        path = "/api/v1/orgs/organizations/perdure/projects"
        for secret, project, status in ((member, "default", 403), (bound, "default", 404), (bound, "p", 200)):
            answer = server.client.patch(f"{path}/{project}", json={"decay": False}, headers=bearer(secret))
            assert answer.status_code == status
        with mem0_client(server.url, bound) as other:
            assert other.project.project_id == "p" and other.project.get(fields=["decay"]) == {"decay": False}


NOT_SERVED: dict[str, Callable[[MemoryClient], Any]] = {
    "get_profile": lambda client: client.get_profile("ana"),
    "generate_profile": lambda client: client.generate_profile("ana"),
    "sample_profiles": lambda client: client.sample_profiles(limit=1),
    "get_profile_job": lambda client: client.get_profile_job("j1"),
    "get_profile_settings": lambda client: client.get_profile_settings(),
    "update_profile_settings": lambda client: client.update_profile_settings(enabled=True),
    "get_webhooks": lambda client: client.get_webhooks("default"),
    "create_webhook": lambda client: client.create_webhook("http://localhost", "n", "default", ["memory_add"]),
    "update_webhook": lambda client: client.update_webhook(1, name="n"),
    "delete_webhook": lambda client: client.delete_webhook(1),
    "project.create": lambda client: client.project.create("n"),
    "project.delete": lambda client: client.project.delete(),
    "project.get_members": lambda client: client.project.get_members(),
    "project.add_member": lambda client: client.project.add_member("a@example.com"),
    "project.update_member": lambda client: client.project.update_member("a@example.com", "OWNER"),
    "project.remove_member": lambda client: client.project.remove_member("a@example.com"),
}


@pytest.mark.parametrize("call", NOT_SERVED.values(), ids=NOT_SERVED)
def test_what_is_not_served_says_so(client: MemoryClient, call: Callable[[MemoryClient], Any]) -> None:
    with pytest.raises(mem0_errors.MemoryError, match="mem0 that perdure does not have") as caught:
        call(client)
    assert caught.value.debug_info["status_code"] == 501
    assert caught.value.details["code"] == "not_implemented" and caught.value.details["error"]


def test_the_asynchronous_client(shared: Running, who: str) -> None:
    client = AsyncMemoryClient(api_key="any", host=shared.url)

    async def work() -> None:
        added = await client.add("I moved to Lisbon", user_id=who)
        assert added["event_id"]
        (found,) = (await client.search("moved to Lisbon", filters={"user_id": who}))["results"]
        id = found["id"]
        assert (await client.get(id))["memory"] == "User moved to Lisbon"
        assert (await client.get_all(filters={"user_id": who}, page=1, page_size=5))["count"] == 1
        assert (await client.update(id, text="User moved to Porto"))["memory"] == "User moved to Porto"
        assert [each["event"] for each in await client.history(id)] == ["ADD", "UPDATE"]
        assert (await client.feedback(id, feedback="POSITIVE"))["feedback"] == "POSITIVE"
        await client.batch_update([{"memory_id": id, "text": "User moved to Faro"}])
        assert (await client.get_summary(filters={"user_id": who}))[0]["memory_count"] == 1
        export = await client.create_memory_export({"properties": {"memory": {}}}, filters={"user_id": who})
        got = await client.get_memory_export(memory_export_id=export["id"])
        assert got == {"memories": [{"memory": "User moved to Faro"}]}
        assert who in {each["name"] for each in (await client.users())["results"]}
        assert "decay" in await client.project.get(fields=["decay"])
        with pytest.raises(mem0_errors.ValidationError):
            await client.delete_all()
        await client.batch_delete([{"memory_id": id}])
        await client.add("note", user_id=who, infer=False)
        await client.delete_all(user_id=who)
        await client.add("note", user_id=who, infer=False)
        await client.delete_users(user_id=who)
        assert (await client.get_all(filters={"user_id": who}))["count"] == 0
        with pytest.raises(mem0_errors.MemoryError, match="does not have"):
            await client.get_profile("ana")
        await client.async_client.aclose()

    asyncio.run(work())
