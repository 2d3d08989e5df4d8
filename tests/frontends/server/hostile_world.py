"""Two tenants of one server: each has personal memories, a project's, and a team's, full of words nobody can guess."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field
from typing import Any

from perdure.domain.scope import Scope
from tests.frontends.server.running import Running, as_member, bearer

PASSING = {"access_count", "last_accessed_at", "score", "similarity", "next_cursor"}
"""What a read may change, or what depends on when it is asked."""


@dataclass
class Tenant:
    """One tenant: its names, which are no secrets, its credentials, and what it has planted."""

    server: Running
    name: str
    words: list[str] = field(default_factory=list)
    """Words that stand in its data alone."""
    ids: dict[str, list[str]] = field(default_factory=dict)
    """By kind: what its things are called; unguessable, and known to the other tenant all the same."""
    entity: str = ""
    """Whom its memories name: no secret, and others may know it too."""
    given_away: set[str] = field(default_factory=set)
    """Ids that the other one has made something of its own under."""
    published: str = ""
    """The id of the one memory that is everybody's to read."""

    def __post_init__(self) -> None:
        self.user, self.project, self.team = f"user-{self.name}", f"project-{self.name}", f"team-{self.name}"
        self.author, self.colleague = f"author-{self.name}", f"colleague-{self.name}"
        key = self.server.key
        self.by_user = bearer(key(f"user {self.name}", role="admin", user_id=self.user))
        self.by_project = bearer(key(f"project {self.name}", role="admin", project_id=self.project))
        self.by_team = bearer(key(f"team {self.name}", role="service", team_id=self.team)) | {"X-Team-Scope": self.team}
        self.by_token = as_member(self.team, self.author, role="admin", projects=[self.project])
        self.by_reader = bearer(key(f"reader {self.name}", role="reader", user_id=self.user))
        self.entity = f"Zed{self.name.replace('-', '').capitalize()}"
        self.plant()

    # ------------------------------------------------------------------ planting
    def word(self) -> str:
        """A word that nobody else has."""
        self.words.append(f"Canary{secrets.token_hex(6)}")
        return self.words[-1]

    def said(self) -> str:
        """A text that anybody's question finds, and that holds a word of the tenant's own."""
        return f"The launch code of {self.word()} is walnut"

    def note(self, kind: str, id: str) -> str:
        self.ids.setdefault(kind, []).append(id)
        return id

    def ask(self, who: dict[str, str], method: str, path: str, *statuses: int, **more: Any) -> Any:
        answer = self.server.client.request(method, path, headers=who, **more)
        assert answer.status_code in (statuses or (200, 201)), (method, path, answer.text)
        return answer.json()

    def plant(self) -> None:
        self._plant_personal(self.by_user, {})
        self._plant_personal(self.by_project, {"user_id": f"{self.user}-p"})
        self._plant_explicit()
        self._plant_team()
        self._plant_talk()
        settings = f"/api/v1/orgs/organizations/perdure/projects/{self.project}"
        self.ask(self.by_project, "PATCH", settings, json={"custom_instructions": f"Keep {self.word()}"})
        self.server.wait(self._settled())

    def _plant_personal(self, who: dict[str, str], scope: dict[str, str]) -> None:
        metadata = {"note": self.word(), "entities": [{"name": self.entity, "type": self.word()}]}
        body = {"messages": self.said(), "metadata": metadata, "infer": False, **scope}
        added = self.ask(who, "POST", "/v1/memories", json={**body, "run_id": self.word(), "agent_id": self.word()})
        id = self.note("memory", added["results"][0]["id"])
        self.note("event", added["results"][0]["event_id"])
        self.ask(who, "PUT", f"/v1/memories/{id}", json={"text": self.said()})
        told = {"messages": f"{self.entity} became the lead of {self.word()} on 2026-01-01", "app_id": self.word()}
        told["idempotency_key"] = f"key of {self.name}"
        v3 = self.ask(who, "POST", "/v3/memories/add", json={**body, **told})
        self.note("memory", v3["results"][0]["id"])
        self.note("event", v3["event_id"])
        gone = self.ask(who, "POST", "/memories", json={**body, "messages": self.said()})["results"][0]["id"]
        self.ask(who, "DELETE", f"/v1/memories/{self.note('memory', gone)}")
        export = {"schema": {"properties": {"memory": {}}}, **scope, "filters": {"user_id": self.user, **scope}}
        self.note("export", self.ask(who, "POST", "/v1/exports", json=export)["id"])
        listed = self.ask(who, "GET", "/v1/memories", params={"limit": 1, **scope})
        self.note("cursor", listed["next_cursor"])
        for record in self.ask(who, "GET", f"/v1/memories/{id}/history"):
            self.note("event", record["id"])

    def _plant_explicit(self) -> None:
        body = {"content": self.said(), "source": self.word(), "project_id": self.word()}
        self.note("memory", self.ask(self.by_user, "POST", "/v1/memory", json=body)["id"])

    def _plant_team(self) -> None:
        for number, visibility in enumerate(("team", "project", "private", "team")):
            item = {
                "content": self.said() if number < 3 else "The launch code of everybody is hazel",
                "team_scope": self.team, "project_scope": self.project, "visibility": visibility, "confidence": 0.9,
                "truth_level": "WORKING", "source": f"chat:{number}" if number == 3 else f"chat:{self.word()}",
                "validation_status": "pending",
                "metadata": {"note": self.word(), "entities": [{"name": self.entity, "type": "person"}]},
            }  # fmt: skip
            id = self.note("memory", self.ask(self.by_token, "POST", "/v1/memory/upsert", json={"item": item})["id"])
            # The last one is published: its text is everybody's, and nothing else of it.
            levels = (["VALIDATED"], ["VALIDATED", "CANONICAL"], [], ["VALIDATED", "CANONICAL", "PUBLIC"])[number]
            for level in levels:
                wanted = {"item_id": id, "target_level": level, "justification": self.word()}
                asked = self.ask(self.by_token, "POST", "/v1/promotions", json=wanted)
                self.note("promotion", asked["promotion_id"])
                if len(levels) > 1:
                    done = {"decision": "approved", "note": self.word()}
                    self.ask(self.by_token, "PATCH", f"/v1/promotions/{asked['promotion_id']}", json=done)
        self.published = id
        for entry in self.ask(self.by_token, "GET", "/v1/audit")["entries"]:
            self.note("audit", entry["id"])

    def _plant_talk(self) -> None:
        """A chain of two responses, and the session that it is."""
        body: dict[str, Any] = {"model": "scripted"}
        for _ in range(2):
            asked = {**body, "input": self.said()}
            found = self.ask(self.by_user, "POST", "/v1/responses", json=asked)
            body["previous_response_id"] = self.note("response", found["id"])
            self.note("item", found["output"][0]["id"])
        session = self.ask(self.by_user, "GET", f"/v1/sessions/{self.ids['response'][0]}")
        assert session["turns"] == 2
        self.note("session", session["session_id"])

    async def _settled(self) -> None:
        """Until the graph has followed."""
        keeper = self.server.service.engine.graph._keeper
        assert keeper is not None
        await keeper.settle(Scope())

    # ------------------------------------------------------------------ what there is
    @property
    def users(self) -> set[str]:
        return {self.user, f"{self.user}-p"}

    def everything(self) -> str:
        """All that the tenant has: by its own reads, and as store, ledger and graph hold it."""
        return json.dumps([self._told(), self.server.wait(self.held())], sort_keys=True, default=str)

    def _told(self) -> list[Any]:
        found: list[Any] = []
        for who, params in ((self.by_user, {}), (self.by_project, {"user_id": f"{self.user}-p"})):
            found.append(self._own(self.ask(who, "GET", "/v1/memories", params={"limit": 1000, **params})["results"]))
            for id in self.ids["memory"]:
                answer = self.server.client.get(f"/v1/memories/{id}", headers=who)
                history = self.server.client.get(f"/v1/memories/{id}/history", headers=who)
                found += [answer.status_code, _lasting(answer.json()), history.status_code, history.json()]
        token = self.by_token
        for id in self.ids["memory"]:
            answer = self.server.client.get(f"/v1/memory/{id}", headers=token)
            found += [answer.status_code, _lasting(answer.json())]
        for path in ("/v1/promotions?limit=1000", "/v1/audit?limit=1000"):
            found.append(self.ask(token, "GET", path))
        settings = f"/api/v1/orgs/organizations/perdure/projects/{self.project}"
        found.append(self.ask(self.by_project, "GET", settings))
        return found

    def _own(self, items: list[dict[str, Any]]) -> Any:
        return [_lasting(item) for item in items if item["id"] in self._bare_ids()]

    def _bare_ids(self) -> set[str]:
        return {read for id in self.ids["memory"] for read in (id, _uuid(id))}

    async def held(self) -> list[Any]:
        """Rows, history and graph inside of the tenant's walls, nobody else's row among them."""
        service, mine = self.server.service, self._bare_ids()
        kernel, ledger = service.engine.kernel, await service.ledger()
        rows = []
        async for points in kernel.store.stream(kernel.collection):
            rows += [_lasting(dict(point.payload)) for point in points if self._is_mine(point.payload)]
        rows.sort(key=lambda row: str(row["id"]))  # a row whose uses were counted may stand elsewhere
        history: list[Any] = []
        keeper = service.engine.graph._keeper
        assert keeper is not None
        graph = await keeper.store()
        talk = [await ledger.chains.get(id, Scope(user_id=self.user)) for id in self.ids["response"]]
        listed = await ledger.sessions.list(Scope(user_id=self.user))
        sessions = [each for each in listed if self._is_mine(each.scope.given())]  # not in a stranger's own project
        for scope in (Scope(user_id=self.user), Scope(project_id=self.project), Scope(team_id=self.team)):
            records = await ledger.events_of_scope(scope, 100_000)
            history += [(r.id, r.event, r.old_value, r.new_value) for r in records if r.memory_id in mine]
            named = [(each.name, each.type, sorted(mine & {*each.memory_ids})) for each in await graph.entities(scope)]
            history += [each for each in named if each[2]]
        return [sorted(rows, key=lambda row: str(row["id"])), history, talk, sessions]

    def _is_mine(self, row: Any) -> bool:
        """Whether a row stands inside of walls that are this tenant's and nobody else's."""
        if row.get("id") in self._bare_ids():
            return True
        projects = (None, self.project) if row.get("user_id") == self.user else (self.project,)
        return row.get("team_id") == self.team or (
            row.get("user_id") in self.users and row.get("project_id") in projects and not row.get("team_id")
        )


def _uuid(id: str) -> str:
    text = id.removeprefix("mem_")
    return text if "-" in text else "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def _lasting(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _lasting(each) for key, each in value.items() if key not in PASSING}
    return [_lasting(each) for each in value] if isinstance(value, list) else value
