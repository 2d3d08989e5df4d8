"""What tests of 004's routes stand on: teams with names of their own, on one server."""

from __future__ import annotations

from itertools import count
from typing import Any

import httpx

from tests.frontends.server.running import Running, as_member

_NUMBERS = count()


class Team:
    """A team that nobody else asks for, and its members' requests."""

    def __init__(self, server: Running) -> None:
        self.server, self.name = server, f"team-{next(_NUMBERS)}"

    def headers(self, sub: str = "alice", **claims: Any) -> dict[str, str]:
        return as_member(self.name, sub, **claims)

    def ask(self, method: str, path: str, sub: str = "alice", *, json: Any = None, **claims: Any) -> httpx.Response:
        return self.server.client.request(method, path, json=json, headers=self.headers(sub, **claims))

    def item(self, content: str = "The Q2 fundraising target is 2M€", **changes: Any) -> dict[str, Any]:
        return {
            "content": content, "team_scope": self.name, "project_scope": "fundraising", "visibility": "team",
            "confidence": 0.9, "truth_level": "WORKING", "source": "librechat:conv_abc123",
            "validation_status": "pending", **changes,
        }  # fmt: skip

    def upsert(self, item: dict[str, Any], sub: str = "alice", **claims: Any) -> httpx.Response:
        return self.ask("POST", "/v1/memory/upsert", sub, json={"item": item}, **claims)

    def stored(self, content: str = "The Q2 fundraising target is 2M€", sub: str = "alice", **changes: Any) -> str:
        answer = self.upsert(self.item(content, **changes), sub, role="service")
        assert answer.status_code == 200, answer.text
        id: str = answer.json()["id"]
        return id

    def search(self, sub: str = "alice", *, claims: dict[str, Any] | None = None, **query: Any) -> Any:
        params = httpx.QueryParams({"q": "target", **query})
        answer = self.ask("GET", f"/v1/memory/search?{params}", sub, **(claims or {}))
        assert answer.status_code == 200, answer.text
        return answer.json()

    def promote(self, id: str, *levels: str) -> None:
        for level in levels:
            body = {"item_id": id, "target_level": level, "justification": "checked"}
            asked = self.ask("POST", "/v1/promotions", json=body).json()
            if asked["status"] == "pending":
                path = f"/v1/promotions/{asked['promotion_id']}"
                assert self.ask("PATCH", path, json={"decision": "approved"}, role="admin").status_code == 200


def detail(answer: httpx.Response) -> str:
    body = answer.json()
    assert set(body) == {"detail"}
    found: str = body["detail"]
    return found
