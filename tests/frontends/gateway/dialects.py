"""One user's conversations over either API, so that a case is told once and held over both."""

from __future__ import annotations

import itertools
import json
import time
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.frontends.gateway.talks import Numbered
from tests.frontends.gateway.upstream import Upstream
from tests.frontends.server.running import Running

CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
_numbers = itertools.count()


@dataclass
class Speaker:
    """Somebody who talks to a model through a gateway, in one session after another."""

    gateway: Running
    model: Upstream
    dialect: str
    """`chat` or `responses`."""
    user: str = field(default_factory=lambda: f"speaker-{next(_numbers)}")
    session: str = field(default_factory=lambda: f"session-{next(_numbers)}")
    path: str = field(init=False)

    def __post_init__(self) -> None:
        self.path = CHAT if self.dialect == "chat" else RESPONSES
        if self.dialect == "responses":
            self.model.always(RESPONSES, Numbered())

    @property
    def headers(self) -> dict[str, str]:
        return {"x-authz-user-id": self.user, "x-session-id": self.session}

    def new_session(self) -> None:
        """Whatever is said from now on is of another session."""
        self.session = f"session-{next(_numbers)}"

    def body(self, text: str, system: str | None = None, **more: Any) -> dict[str, Any]:
        """The request that says a text, under a system prompt or none."""
        if self.dialect == "responses":
            told = {} if system is None else {"instructions": system}
            return {"model": "m", "input": text, **told, **more}
        before = [] if system is None else [{"role": "system", "content": system}]
        return {"model": "m", "messages": [*before, {"role": "user", "content": text}], **more}

    def post(
        self, text: str, *, system: str | None = None, headers: dict[str, str] | None = None, **more: Any
    ) -> httpx.Response:
        """Say something; it must succeed."""
        body = self.body(text, system, **more)
        found = self.gateway.client.post(self.path, json=body, headers={**self.headers, **(headers or {})})
        assert found.status_code == 200, found.text
        return found

    def asked(self, text: str, **more: Any) -> str:
        """All that the model was told, where this was asked."""
        self.post(text, **more)
        return json.dumps(self.model.last.json, ensure_ascii=False)

    def told(self, *texts: str) -> None:
        """Say something in a session, and wait until it has been read for facts."""
        for text in texts:
            self.post(text)
        self.read()

    def read(self) -> None:
        """Wait until the session's turns have been read: a chat's each at once, others' at the end."""
        self.until_still()
        deadline = time.monotonic() + 60
        if self.dialect == "responses":
            path = f"/v1/sessions/{self.session}/end"
            self.gateway.client.post(path, headers=self.headers, timeout=60).raise_for_status()
        while True:
            found = self.gateway.client.get(f"/v1/sessions/{self.session}", headers=self.headers).json()
            if found["read_turns"] >= found["turns"] > 0:
                return
            assert time.monotonic() < deadline, found
            time.sleep(0.01)

    def until_still(self) -> None:
        """Wait until all that was said is kept."""
        deadline = time.monotonic() + 60
        while self.gateway.app.state.gateway.under_way:
            assert time.monotonic() < deadline
            time.sleep(0.005)

    def store(self, *facts: str, **more: Any) -> list[str]:
        """Keep memories as they are; their ids."""
        found = []
        for fact in facts:
            answer = self.gateway.client.post("/v1/memory", json={"content": fact, **more}, headers=self.headers)
            assert answer.status_code == 200, answer.text
            found.append(answer.json()["id"])
        return found

    @property
    def rows(self) -> list[dict[str, Any]]:
        """What is remembered of the user, as /v1/memory tells it."""
        found: list[dict[str, Any]] = self.gateway.client.get("/v1/memory?limit=100", headers=self.headers).json()[
            "memories"
        ]
        return found

    @property
    def memories(self) -> list[str]:
        return [each["content"] for each in self.rows]
