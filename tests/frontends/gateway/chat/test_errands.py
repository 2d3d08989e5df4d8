"""A chat program's own errands, titles and tags and the like, are neither kept nor told of memory."""

from __future__ import annotations

import pytest

from tests.frontends.gateway.chat.errands import ERRANDS, SAID
from tests.frontends.gateway.dialects import CHAT, Speaker
from tests.frontends.gateway.scripts import Reply, completion
from tests.frontends.gateway.upstream import Upstream
from tests.frontends.server.running import Running

pytestmark = pytest.mark.covers("A5")

DIALECTS = pytest.mark.parametrize("dialect", ["chat", "responses"])
HISTORY = "USER: I moved to Tromso, and my sister is called Ingrid.\nASSISTANT: I see."


@DIALECTS
@pytest.mark.parametrize("name", ERRANDS)
def test_an_errand_goes_up_as_it_came_and_teaches_nothing(
    gateway: Running, model: Upstream, dialect: str, name: str
) -> None:
    ana = Speaker(gateway, model, dialect)
    ana.store("User's sister is called Ingrid")
    ana.store("User wants to be answered in French", type="procedural")
    before = ana.rows
    prompt = ERRANDS[name] % HISTORY
    sent = ana.body(prompt)
    answer = ana.post(prompt)
    assert (answer.headers["x-memory-status"], answer.headers["x-memory-reason"]) == ("ignored", "query_ineligible")
    assert model.last.json == sent
    assert "memory_hits" not in answer.json()
    ana.until_still()
    assert gateway.client.get(f"/v1/sessions/{ana.session}", headers=ana.headers).status_code == 404
    assert ana.rows == before


@pytest.mark.parametrize("name", SAID)
def test_what_a_person_says_in_a_like_layout_is_remembered(gateway: Running, model: Upstream, name: str) -> None:
    ana = Speaker(gateway, model, "chat")
    assert ana.post(SAID[name]).headers["x-memory-reason"] != "query_ineligible"
    ana.read()
    assert any("mustard" in each["content"] for each in ana.rows), ana.rows


def test_an_errand_is_known_by_its_header(gateway: Running, model: Upstream) -> None:
    ana = Speaker(gateway, model, "chat")
    model.always(CHAT, Reply.of_json(completion("😀")))
    for told, is_errand in (("emoji_generation", True), ("", False), ("{{TASK}}", False)):
        headers = {"X-OpenWebUI-Task": told}
        answer = ana.post("Which face fits this: I moved to Tromso and I am glad", headers=headers)
        assert (answer.headers["x-memory-status"] == "ignored") is is_errand
        assert model.last.header("x-openwebui-task") == (told or None) or not told
