"""The OpenAPI document against the server that it describes: schemathesis asks every operation, well and badly.

What is checked is all that schemathesis knows, but for what is JUDGED: no answer is a failure of the server, each has a
status and a content type that the document promises, and a body of its schema; wrong methods and missing headers are
refused, and what was deleted is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import CHECKS as ALL_CHECKS
from schemathesis.checks import load_all_checks
from schemathesis.config import CacheConfig, ChecksConfig, NotAServerErrorConfig, ProjectConfig, ProjectsConfig
from schemathesis.core.failures import FailureGroup

from tests.frontends.gateway.upstream import upstream
from tests.frontends.server.running import Running, running

EXAMPLES = 6
"""Requests to each operation as the document wants them, and as many as it does not."""
JUDGED = {
    # Each was looked at: the 400s and 422s name a field and a value, by a rule that JSON Schema has no word for or that
    # a spec gives to the answer: no scope at all, text with nothing in it, a time or a filter in words, no such id.
    "positive_data_acceptance",
    # What it finds is taken on purpose: mem0's programs send numbers for ids, which are read as their text.
    "negative_data_rejection",
}
"""Checks of schemathesis that find what is meant to be."""
load_all_checks()
CHECKS = [check for check in ALL_CHECKS.get_all() if check.__name__ not in JUDGED]
METHODS = {"get", "put", "post", "patch", "delete"}


@dataclass(frozen=True)
class Asked:
    server: Running
    schema: Any
    session: requests.Session


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """An open server with a graph, which holds something, and its document as schemathesis reads it."""
    folder = tmp_path_factory.mktemp("schemathesis")
    graph = {"provider": "sqlite"}
    with (
        upstream(responses=False) as model,
        running(folder / "memory", graph_store=graph, gateway={"upstream": {"base_url": model.url}}) as server,
    ):
        for text in ("Ana was the lead of Atlas until 2026-04-01", "Ana keeps bees"):
            stored = server.client.post("/v1/memory", json={"content": text, "user_id": "ana"})
            assert stored.status_code == 200, stored.text
        checks = ChecksConfig(not_a_server_error=NotAServerErrorConfig(expected_statuses=["2xx", "4xx", "501"]))
        config = schemathesis.Config(
            seed=6,
            cache=CacheConfig(enabled=False),
            projects=ProjectsConfig(default=ProjectConfig(checks=checks)),
        )
        schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json", config=config)
        with requests.Session() as session:
            yield Asked(server, schema, session)


def test_the_document_holds_every_operation(asked: Asked) -> None:
    document = asked.server.client.get("/openapi.json").json()
    told = {f"{method.upper()} {path}" for path, item in document["paths"].items() for method in item.keys() & METHODS}
    assert told == {each.ok().label for each in asked.schema.get_all_operations()}
    assert len(told) > 60


@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode), ids=lambda mode: str(mode.value))
def test_no_operation_fails_and_each_answers_as_the_document_says(
    asked: Asked, mode: schemathesis.GenerationMode
) -> None:
    broken: dict[str, str] = {}
    answered = 0
    for result in asked.schema.get_all_operations():
        operation = result.ok()
        try:
            ask(asked, operation, mode)
            answered += 1
        except Unsatisfiable:  # there is nothing that a request could have wrong
            assert mode == schemathesis.GenerationMode.NEGATIVE, operation.label
        except FailureGroup as failures:
            broken[operation.label] = "\n".join(str(each) for each in failures.exceptions)
    assert answered > 40
    assert not broken, "\n\n".join(f"{label}\n{told}" for label, told in broken.items())


def ask(asked: Asked, operation: Any, mode: schemathesis.GenerationMode) -> None:
    """Make so many requests of one operation, the same ones every time."""
    is_served = any(status.startswith("2") for status in operation.definition.raw["responses"])
    examples = EXAMPLES if is_served else 1

    @seed(6)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def one(case: schemathesis.Case) -> None:
        case.call_and_validate(session=asked.session, checks=CHECKS, timeout=60)

    one()
