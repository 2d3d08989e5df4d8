"""Hostile requests: every operation of a server, filled in by one tenant with what is another's.

What an operation takes is read from the server's own document, and each name in it must be one that is known here: a
new one is a reason to think about what could be done with it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote, unquote

from fastapi import FastAPI

from tests.frontends.server.hostile_world import Tenant
from tests.frontends.server.running import as_member, bearer, token

Make = Callable[[Tenant, Tenant], list[Any]]
METHODS = ("get", "put", "post", "patch", "delete")
MODELS = ("/v1/chat/completions", "/v1/responses")
"""Routes to a model, which stand without /v1 too."""
IDS = {"id", "memory_id", "promotion_id", "response_id"}
"""Parameters of paths by which one thing is named."""
WHOSE = (
    *("user_id", "project_id", "agent_id", "app_id", "run_id", "session_id", "filters", "project_scope", "item"),
    *("id", "item_id", "subject_id", "event_id", "memory_export_id", "memory_id", "cursor", "after", "entity", "name"),
    *("previous_response_id", "memory_context", "memory_config", "input", "user", "messages"),
)
"""By which a request says what it is about."""
Aim = Literal["bare", "aimed", "free"]
"""Whether no more is given than what must be, also one or two things that say whose, or anything."""


# ------------------------------------------------------------------ what is asked for
def _filters(his: Tenant, mine: Tenant) -> list[Any]:
    named: list[Any] = [
        {"user_id": his.user}, {"OR": [{"user_id": his.user}]}, {"OR": [{"user_id": mine.user}, {"user_id": his.user}]},
        {"user_id": {"in": [his.user, mine.user]}}, {"user_id": "*"}, {"NOT": {"user_id": mine.user}},
        {"AND": [{"user_id": mine.user}, {"NOT": {"user_id": mine.user}}]}, {"user_id": {"$ne": mine.user}},
        {"field": "user_id", "operator": "ne", "value": mine.user}, {"memory_ids": his.ids["memory"]},
        {"user_id": his.user, "project_id": his.project}, {"project_id": his.project}, {"team_id": his.team},
        {"OR": [{"user_id": mine.user}, {"team_id": his.team}]}, {"agent_id": "*"}, {"app_id": "*"},
        {"OR": [{"run_id": "*"}, {"visibility": "team"}]}, {"id": {"in": his.ids["memory"]}}, {"user_id": None},
        {"memory": {"icontains": "walnut"}}, {"user_id": mine.user, "$or": [{"user_id": his.user}]},
        {"field": "id", "operator": "in", "value": his.ids["memory"]}, {"user_id": {"gte": ""}}, {"user_id": ["*"]},
    ]  # fmt: skip
    return [*named, *(json.dumps(each) for each in named[:6]), *(repr(each) for each in named[:6]), "*", "null", "[]"]


def _every_id(his: Tenant, _: Tenant) -> list[str]:
    return [form for ids in his.ids.values() for id in ids for form in (id, f"mem_{id.replace('-', '')}")]


def _of(kind: str) -> Make:
    return lambda his, mine: [*his.ids[kind], *mine.ids[kind][:1]]


def _scope(axis: str) -> Make:
    def values(his: Tenant, mine: Tenant) -> list[Any]:
        theirs, own = getattr(his, axis), getattr(mine, axis)
        wild = ["*", "%", "_", "null", "", None, f"{theirs}%", f"{own}' OR '1'='1", f"{own},{theirs}", f"{own}\x00"]
        return [*[theirs] * 12, own, [own, theirs], {"ne": own}, {"in": [theirs]}, f" {theirs}", *wild]

    return values


def _free(axis: str) -> Make:
    return lambda his, mine: ["*", "%", "null", None, getattr(his, axis), his.words[0][:6], mine.name]


def _just(*values: Any) -> Make:
    return lambda his, mine: list(values)


def _item(his: Tenant, mine: Tenant) -> list[Any]:
    tags = {
        "content": "planted", "project_scope": his.project, "visibility": "project", "confidence": 1,
        "truth_level": "WORKING", "source": "chat:planted", "validation_status": "approved",
    }  # fmt: skip
    named = {"metadata": {"entities": [{"name": his.entity}]}}
    return [tags | named | {"team_scope": team} for team in (his.team, mine.team)]


_ASKED = [{"role": "user", "content": "what is my launch code, walnut?"}]


def _input(his: Tenant, _: Tenant) -> list[Any]:
    return [
        "what is my launch code, walnut?",
        _ASKED,
        *([{"type": "item_reference", "id": id}, *_ASKED] for id in his.ids["item"]),
    ]


def _context(his: Tenant, mine: Tenant) -> list[Any]:
    return [{"user_id": his.user}, {"project_id": his.project}, {"user_id": mine.user, "project_id": his.project}]


QUESTIONS = _just("launch code walnut", "*", "%", "the launch code of everybody")
TIMES = _just(None, "2020-01-01", "2030-01-01", 0)
FLAGS = _just(True, False)
KNOWN: Mapping[str, Make] = {
    **dict.fromkeys(("filters",), _filters),
    **dict.fromkeys(("user_id",), _scope("user")),
    **dict.fromkeys(("kind",), _just("facts", "notes", "letters")),
    **dict.fromkeys(("project_id", "project_scope"), _scope("project")),
    **dict.fromkeys(("team_scope",), _scope("team")),
    **dict.fromkeys(("agent_id", "run_id", "app_id"), _free("user")),
    "session_id": lambda his, mine: [
        *_free("user")(his, mine),
        *_of("response")(his, mine),
        *_of("session")(his, mine),
    ],
    **dict.fromkeys(("id", "item_id", "subject_id"), _every_id),
    "memory_id": _of("memory"),
    "memory_ids": lambda his, mine: [None, his.ids["memory"][:2], [his.ids["memory"][0], mine.ids["memory"][0]]],
    "about": QUESTIONS,
    "at_least": _just(1, 2),
    "promotion_id": _of("promotion"),
    **dict.fromkeys(("response_id", "previous_response_id"), _of("response")),
    "input": _input,
    "memory_context": _context,
    "memory_config": _just({"similarity_threshold": 0}, {"retrieval_limit": 100, "similarity_threshold": 0}),
    "model": _just("scripted"),
    "order": _just("asc", "desc", "score", "time"),
    **dict.fromkeys(("memory_top_k",), _just(1, 100)),
    **dict.fromkeys(("memory_score_threshold", "memory_recency_weight"), _just(0)),
    "instructions": _just("Say what you know."),
    **dict.fromkeys(("stream", "store"), FLAGS),
    "event_id": _of("event"),
    "memory_export_id": _of("export"),
    "cursor": _of("cursor"),
    "after": lambda his, mine: [0, 1, 10**9, *_every_id(his, mine)],
    "memories": lambda his, mine: [[{"memory_id": id, "text": "mine now"} for id in his.ids["memory"][:3]]],
    **dict.fromkeys(
        ("name", "entity", "names", "entities"), lambda his, mine: [*[his.entity] * 3, his.user, his.team, "*"]
    ),
    **dict.fromkeys(("Idempotency-Key", "idempotency-key", "idempotency_key"), lambda his, _: [f"key of {his.name}"]),
    "org_id": _just("perdure", "*"),
    **dict.fromkeys(("q", "query"), QUESTIONS),
    **dict.fromkeys(("text", "content"), _just("planted", [{"role": "user", "content": "planted"}])),
    "messages": _just("planted", [{"role": "user", "content": "planted"}], *[_ASKED] * 4),
    "user": _scope("user"),
    "metadata": lambda his, mine: [
        {},
        {"note": "planted"},
        {"entities": [{"name": his.entity}]},
        {"user_id": his.user},
    ],
    "item": _item,
    "patch": lambda his, mine: [{"content": "planted"}, {"project_scope": mine.project}],
    "type": _just("user", "semantic", "agent", "app", "run", "*"),
    "types": _just(None, ["semantic"], "semantic,procedural", "*"),
    "erase": FLAGS,
    "dry_run": FLAGS,
    "decision": _just("approved", "rejected"),
    "target_level": _just("VALIDATED", "CANONICAL", "PUBLIC"),
    **dict.fromkeys(("truth_level_min", "min_level", "truth_level"), _just("EPHEMERAL", "WORKING")),
    "visibility": _just("team", "project", "private"),
    "validation_status": _just("approved"),
    "status": _just("pending", "approved"),
    **dict.fromkeys(("feedback", "verdict"), _just("NEGATIVE")),
    "source": lambda his, mine: ["chat:planted", his.words[0][:6]],
    **dict.fromkeys(
        (
            *("delete_linked", "show_expired", "include_past", "hydrate", "explain", "latest_only", "keyword_search"),
            *("deleted",),
            *("filter_memories", "enable_graph", "async_mode", "rerank", "infer", "immutable", "decay", "multilingual"),
        ),
        FLAGS,
    ),
    **dict.fromkeys(("limit", "top_k", "page_size", "max_tokens"), _just(1, 100, 1000)),
    **dict.fromkeys(("page", "depth", "importance", "confidence"), _just(1)),
    **dict.fromkeys(("threshold",), _just(0, -1)),
    **dict.fromkeys(
        (
            *("as_of", "at", "start_date", "end_date", "reference_time", "reference_date", "timestamp"),
            *("expires_at", "expiration_date", "created_at", "updated_at", "time_window"),
        ),
        TIMES,
    ),
    "fields": _just(["memory", "metadata", "user_id"], "memory"),
    "confirm": _just(True),
    "preset": _just("plain", "best"),
    "categories": _just(["*"], "x"),
    "history": _just([{"role": "user", "content": "what is the launch code?"}]),
    "schema": _just({"properties": {"memory": {}, "metadata": {}}}),
    **dict.fromkeys(("version", "api_version", "output_format"), _just("v1.1")),
    **dict.fromkeys(
        (
            *(
                "note",
                "justification",
                "feedback_reason",
                "reason",
                "prompt",
                "includes",
                "excludes",
                "custom_instructions",
            ),
            *("agent_custom_instructions", "memory_depth", "usecase_setting", "memory_type"),
        ),
        _just("planted"),
    ),
    **dict.fromkeys(("custom_categories", "structured_data_schema", "access_count"), _just(None)),
}
"""What is put into each thing that some operation takes, by its name."""


# ------------------------------------------------------------------ operations
@dataclass(frozen=True)
class Operation:
    """One method of one path, and what it takes."""

    method: str
    path: str
    takes: tuple[str, ...]
    """Names in the query."""
    places: tuple[str, ...]
    """Names in the path."""
    body: Mapping[str, Any] | None
    """The JSON schema of its body."""
    is_absent: bool
    """Whether all that it does is to say that it is not served."""

    @property
    def label(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def only_reads(self) -> bool:
        return self.method == "GET"


def operations(app: FastAPI) -> list[Operation]:
    """Every operation of an app, from its document; those of a model without /v1 too, which it tells of once."""
    document = app.openapi()
    found = []
    for path, item in document["paths"].items():
        for method in METHODS:
            if (told := item.get(method)) is None:
                continue
            places = tuple(part.strip("{}").partition(":")[0] for part in path.split("/") if part.startswith("{"))
            takes = tuple(each["name"] for each in told.get("parameters", []) if each["in"] == "query")
            content = told.get("requestBody", {}).get("content", {})
            body = _whole(content["application/json"]["schema"], document) if content else None
            is_absent = not any(status.startswith("2") for status in told["responses"])
            for each in (path, path.removeprefix("/v1")) if path.startswith(MODELS) else (path,):
                found.append(Operation(method.upper(), each, takes, places, body, is_absent))
    return found


def routed(app: FastAPI) -> set[str]:
    """Every operation that the app answers, whether its document tells of it or not."""
    return {
        f"{method} {path}" for path, methods in _routes(app.routes) for method in methods if method.lower() in METHODS
    }


def _routes(routes: Any) -> Iterator[tuple[str, set[str]]]:
    for route in routes:
        if (inner := getattr(route, "original_router", None)) is not None:
            yield from _routes(inner.routes)
        else:
            yield route.path.replace(":path", ""), route.methods


def unknown(operation: Operation) -> set[str]:
    """What an operation takes and this does not know how to fill."""
    names = {*operation.takes, *operation.places, *(operation.body or {}).get("properties", {})}
    return names - {*KNOWN}


def _whole(schema: Mapping[str, Any], document: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" in schema:
        found: Mapping[str, Any] = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return found
    return schema


# ------------------------------------------------------------------ requests
@dataclass(frozen=True)
class Request:
    """What is sent."""

    operation: Operation
    path: str
    params: list[tuple[str, str]]
    headers: list[tuple[str, str]]
    body: Any

    @property
    def told(self) -> str:
        """All that whoever sends it knows already."""
        headers = [each for each in self.headers if each[0].lower() != "authorization"]
        return f"{self.operation.method} {unquote(self.path)} {self.params} {headers} {json.dumps(self.body)}"

    def names(self, secret: str) -> bool:
        """Whether something stands in it, an id in any of its forms."""
        return secret in self.told or secret.removeprefix("mem_").replace("-", "") in self.told.replace("-", "")


def attackers(his: Tenant, mine: Tenant) -> dict[str, list[tuple[str, str]]]:
    """The headers of everybody who has no part in `his`."""
    both = token(mine.author, teams=[mine.team], role="admin", projects=[his.project, mine.project])
    same = as_member(mine.team, his.author, role="admin", projects=[his.project])
    found: dict[str, dict[str, str]] = {
        "user": mine.by_user, "project": mine.by_project, "team": mine.by_team, "reader": mine.by_reader, "nobody": {},
        "token": mine.by_token, "token without team": bearer(both), "one of the same name": same,
        "team unnamed": {"Authorization": mine.by_team["Authorization"]}, "forged": bearer("pd_" + "0" * 40),
    }  # fmt: skip
    contradictions = {
        "user for him": mine.by_user | {"x-authz-user-id": his.user},
        "user in his team": mine.by_user | {"X-Team-Scope": his.team},
        "team in his team": mine.by_team | {"X-Team-Scope": his.team},
        "token in his team": bearer(both) | {"X-Team-Scope": his.team},
        "token for him": bearer(both) | {"x-authz-user-id": his.author},
        "nobody for him": {"x-authz-user-id": his.user, "X-Team-Scope": his.team},
    }
    found |= contradictions
    doubled = {
        "both cases": [*mine.by_user.items(), ("x-authz-user-id", mine.user), ("X-AUTHZ-USER-ID", his.user)],
        "both teams": [*mine.by_token.items(), ("x-team-scope", his.team)],
        "his team first": [("x-team-scope", his.team), *mine.by_token.items()],
    }
    return {name: list(headers.items()) for name, headers in found.items()} | doubled


HELD_OFF = frozenset(
    {
        *("nobody", "forged", "team unnamed", "nobody for him"),
        *("user in his team", "team in his team", "token in his team", "his team first"),
    }
)
"""Those of them whom the door lets in nowhere, but for what is nobody's."""


class Filler:
    """Fills operations in, always alike for the same numbers."""

    def __init__(self, his: Tenant, mine: Tenant, chance: random.Random) -> None:
        self._his, self._mine, self._chance = his, mine, chance

    def request(self, operation: Operation, headers: list[tuple[str, str]], aim: Aim, id: str | None = None) -> Request:
        """A request; `id` is what stands in the path."""
        params: list[tuple[str, str]] = []
        for name in self._given(operation.takes, {"q", "query", "entity"}, aim):
            times = 1 if aim == "bare" else self._chance.choice((1, 1, 1, 2))
            params += [(name, _text(self._value(name))) for _ in range(times)]
        body = None
        if operation.body is not None:
            names = self._given(operation.body.get("properties", {}), operation.body.get("required", ()), aim)
            body = {name: self._value(name) for name in names}
        return Request(operation, self._path(operation, id, is_bent=aim != "bare"), params, headers, body)

    def _given(self, names: Collection[str], needed: Collection[str], aim: Aim) -> list[str]:
        """What is given of all that could be."""
        aimed = [name for name in names if name in WHOSE]
        some: set[str] = set()
        if aim == "aimed":
            most = [name for name in ("user_id", "filters") if name in aimed]
            some |= {*self._chance.sample(aimed, min(len(aimed), self._chance.choice((0, 1, 2))))}
            some |= {*self._chance.sample(most, min(len(most), self._chance.choice((0, 1))))}
        return [
            name for name in names if name in needed or name in some or (aim == "free" and self._chance.random() < 0.3)
        ]

    def _value(self, name: str) -> Any:
        return self._chance.choice(KNOWN[name](self._his, self._mine))

    def _path(self, operation: Operation, id: str | None, *, is_bent: bool) -> str:
        parts = []
        for part in operation.path.split("/"):
            if not part.startswith("{"):
                parts.append(part)
                continue
            value = id if id is not None else _text(self._value(part.strip("{}").partition(":")[0]))
            parts.append(quote(value, safe=""))
        path = "/".join(parts)
        bent = [path] * 8 + [f"{path}/", f"{path}%2F", f"{path}%00", f"/{path}", f"{path}/../{parts[-1]}", f"{path};a"]
        return self._chance.choice(bent) if is_bent else path


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
