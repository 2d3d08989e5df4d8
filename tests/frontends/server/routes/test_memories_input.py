"""Spec 000's routes and mem0's: what is wrong is refused by name and changes nothing, what is odd but right is kept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.frontends.server.running import Running

ODD = [
    "a'b\"c\\d",
    "näïve ☃ 中文 العربية",
    "👩‍👩‍👧‍👦 e\u0301 \u202e",
    "{'user_id': 'x'}",
    "%2e%2e%2f; DROP TABLE memories; --",
    "line\nbreak\ttab",
]


def keep(server: Running, text: str, **body: Any) -> str:
    answer = server.client.post("/v1/memories", json={"messages": text, "infer": False, **body})
    assert answer.status_code == 200, answer.text
    id: str = answer.json()["results"][0]["id"]
    return id


def listed(server: Running, **scope: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.client.get("/v1/memories", params=scope).json()["results"]
    return found


@pytest.mark.parametrize("text", ODD)
def test_odd_text_and_ids_are_kept_as_they_are(shared: Running, text: str) -> None:
    id = keep(shared, text, user_id=f"u {text}", metadata={text: text})
    (got,) = listed(shared, user_id=f"u {text}")
    assert (got["id"], got["memory"], got["user_id"], got["metadata"]) == (id, text, f"u {text}", {text: text})
    assert shared.client.put(f"/v1/memories/{id}", json={"text": text * 2}).json()["memory"] == text * 2
    by_filter = shared.client.request("POST", "/v3/memories/", json={"filters": {"user_id": f"u {text}"}}).json()
    assert [each["id"] for each in by_filter["results"]] == [id]
    gone = shared.client.delete("/v1/memories/", params={"filters": str({"user_id": f"u {text}"})})
    assert gone.status_code == 200 and listed(shared, user_id=f"u {text}") == []


def test_a_huge_memory(shared: Running, who: str) -> None:
    text = "all work and no play " * 40_000
    id = keep(shared, text, user_id=who)
    assert shared.client.get(f"/v1/memories/{id}").json()["memory"] == text
    too_much = shared.client.post("/v1/memories", json={"messages": "x" * 11_000_000, "user_id": who})
    assert too_much.status_code == 413 and too_much.json()["detail"]


BAD_ADDS: dict[str, tuple[int, Any]] = {
    "no messages": (422, {"user_id": "u"}),
    "null messages": (422, {"messages": None, "user_id": "u"}),
    "number as messages": (422, {"messages": 3, "user_id": "u"}),
    "unknown role": (400, {"messages": [{"role": "wizard", "content": "x"}], "user_id": "u"}),
    "no role": (400, {"messages": [{"content": "x"}], "user_id": "u"}),
    "no content": (400, {"messages": [{"role": "user"}], "user_id": "u"}),
    "content of a wrong type": (400, {"messages": [{"role": "user", "content": 3}], "user_id": "u"}),
    "empty user": (400, {"messages": "x", "user_id": ""}),
    "user with a NUL": (400, {"messages": "x", "user_id": "a\u0000b"}),
    "long user": (400, {"messages": "x", "user_id": "u" * 1025}),
    "number as user": (422, {"messages": "x", "user_id": 3}),
    "metadata as text": (422, {"messages": "x", "user_id": "u", "metadata": "m"}),
    "reserved metadata": (400, {"messages": "x", "user_id": "u", "metadata": {"user_id": "v"}}),
    "bad timestamp": (400, {"messages": "x", "user_id": "u", "timestamp": "soon"}),
    "huge timestamp": (400, {"messages": "x", "user_id": "u", "timestamp": 1e300}),
    "bad expiry": (400, {"messages": "x", "user_id": "u", "expiration_date": "9999-12-31"}),
    "empty prompt": (400, {"messages": "x", "user_id": "u", "prompt": " "}),
    "bad filters": (400, {"messages": "x", "user_id": "u", "filters": {"n": {"near": 3}}}),
    "filters of two users": (400, {"messages": "x", "filters": {"OR": [{"user_id": "a"}, {"user_id": "b"}]}}),
    "misspelt argument": (422, {"messages": "x", "user_id": "u", "meta_data": {}}),
    "a list": (422, [1]),
}


@pytest.mark.parametrize("status, body", BAD_ADDS.values(), ids=BAD_ADDS)
def test_a_wrong_add_is_refused_and_stores_nothing(shared: Running, status: int, body: Any) -> None:
    answer = shared.client.post(
        "/v1/memories", content=json.dumps(body).encode(), headers={"Content-Type": "application/json"}
    )
    told = answer.json()
    assert answer.status_code == status, answer.text
    assert told["detail"] == told["error"] and told["code"] in ("invalid_input", "invalid_filter")
    assert listed(shared, user_id="u") == []


@pytest.mark.parametrize(
    "body, detail, field",
    [
        ({"messages": 3, "user_id": "u"}, "messages must be text or an object or a list", "messages"),
        ({"messages": [3], "user_id": "u"}, "messages must be text or an object; messages.0 must be an object", None),
        ({"messages": "x", "user_id": 3}, "user_id must be text", "user_id"),
        ({"messages": "x", "user_id": "u", "metadata": "m"}, "metadata must be an object", "metadata"),
        ({"messages": "x", "user_id": "u", "infer": "perhaps"}, "infer must be true or false", "infer"),
        ([1], "the body must be an object", None),
    ],
)
def test_a_wrong_type_is_told_in_words_of_json(shared: Running, body: Any, detail: str, field: str | None) -> None:
    told = shared.client.post("/v1/memories", json=body).json()
    assert told["detail"] == detail
    assert field is None or told["field"] == field


def test_a_body_that_is_no_json(shared: Running) -> None:
    for content in (b"", b"{", b"\xff\xfe", b'{"messages": "\\ud800", "user_id": "u"}', b"[" * 5000):
        answer = shared.client.post("/v1/memories", content=content, headers={"Content-Type": "application/json"})
        assert answer.status_code in (400, 422), content
        assert answer.json()["detail"]
    assert listed(shared, user_id="u") == []


@pytest.mark.parametrize(
    "query",
    [
        {}, {"q": ""}, {"q": "x", "limit": 0}, {"q": "x", "limit": "many"}, {"q": "x", "threshold": 2},
        {"q": "x", "threshold": "nan"}, {"q": "x", "preset": "magic"}, {"q": "x", "as_of": "soon"},
        {"q": "x", "filters": "{"}, {"q": "x", "filters": "[1]"}, {"q": "x", "filters": "user_id"},
        {"q": "x", "filters": '{"NOT": {"AND": [{"a": null}]}}'}, {"q": "x", "rerank": True}, {"q": "x", "qq": "y"},
        {"q": "x", "types": ""}, {"q": "x", "filters": "(" * 20_000},
    ],
)  # fmt: skip
def test_a_wrong_search_is_refused(shared: Running, query: dict[str, Any]) -> None:
    answer = shared.client.get("/v1/memories/search", params=query | {"user_id": "u"})
    assert answer.status_code in (400, 414, 422, 431), answer.text
    if answer.status_code in (400, 422):
        assert answer.json()["detail"]


@pytest.mark.parametrize(
    "query", [{"limit": 0}, {"limit": -1}, {"cursor": "nonsense"}, {"page": 0}, {"page_size": 0}, {"as_of": "x"}]
)
def test_a_wrong_list_is_refused(shared: Running, query: dict[str, Any]) -> None:
    assert shared.client.get("/v1/memories", params=query | {"user_id": "u"}).status_code in (400, 422)


def test_limits_beyond_counting(shared: Running, who: str) -> None:
    keep(shared, "note", user_id=who)
    huge = 10**30
    for path in ("/v1/memories", "/v1/memories/search?q=note"):
        found = (
            shared.client.get(path, params={"user_id": who, "limit": huge})
            if "?" not in path
            else (shared.client.get("/v1/memories/search", params={"user_id": who, "limit": huge, "q": "note"}))
        )
        assert len(found.json()["results"]) == 1


@pytest.mark.parametrize(
    "body",
    [{}, {"text": ""}, {"text": "   "}, {"text": None}, {"metadata": {"id": "x"}}, {"timestamp": "x"}, {"texts": "x"}],
)
def test_a_wrong_update_changes_nothing(shared: Running, who: str, body: dict[str, Any]) -> None:
    id = keep(shared, "note", user_id=who)
    before = shared.client.get(f"/v1/memories/{id}").json()
    assert shared.client.put(f"/v1/memories/{id}", json=body).status_code in (400, 422)
    assert shared.client.get(f"/v1/memories/{id}").json() == before


def test_filters_cannot_name_more_scopes_than_are_worth_it(shared: Running) -> None:
    wide = {"OR": [{"user_id": f"u{number}"} for number in range(500)]}
    deep: dict[str, Any] = {"user_id": "u"}
    for _ in range(100):
        deep = {"AND": [deep]}
    many = {"AND": [{"OR": [{"a": number}, {"b": number}]} for number in range(30)]}
    for filters in (wide, deep, many):
        answer = shared.client.post("/v3/memories/search/", json={"query": "x", "filters": filters})
        assert answer.status_code == 400 and "filters" in answer.json()["detail"] + answer.json()["field"]


def test_paths_with_and_without_a_slash_are_one(shared: Running, who: str) -> None:
    keep(shared, "note", user_id=who)
    for slash in ("", "/"):
        answer = shared.client.get(f"/v1/memories{slash}", params={"user_id": who}, follow_redirects=False)
        assert answer.status_code == 200 and len(answer.json()["results"]) == 1


@pytest.mark.parametrize(
    "body", [{"query": None}, {"id": None}, {"threshold": 0.9}, {"id": None, "query": None}, {"query": ""}], ids=str
)
def test_a_request_that_names_nothing_to_forget_erases_nobody(shared: Running, who: str, body: dict[str, Any]) -> None:
    keep(shared, "Ana sails", user_id=who)
    answer = shared.client.post("/v1/forget", json={"user_id": who, **body})
    assert answer.status_code in (400, 422), answer.text
    assert len(listed(shared, user_id=who)) == 1
    shared.client.post("/v1/forget", json={"user_id": who}).raise_for_status()
    assert listed(shared, user_id=who) == []
