"""The `azure_ai_search` store where settings are wrong or the service fails."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from perdure.backends import registry
from perdure.backends.vector_stores.azure_ai_search import AzureSearchVectorStore
from perdure.domain.errors import ConfigError, VectorStoreError
from tests.backends.vector_stores import hosted_stores
from tests.backends.vector_stores.hosted_stores import AZURE_AI_SEARCH, Hosted, Make
from tests.backends.wire.server import Reply
from tests.contracts.conftest import Sync, ids, row
from tests.engines.azure_ai_search import KEY, AzureSearch

loop, service, make, store = hosted_stores.loop, hosted_stores.service, hosted_stores.make, hosted_stores.store
Settings = AzureSearchVectorStore.Settings


@pytest.fixture
def hosted() -> Hosted:
    return AZURE_AI_SEARCH


# ------------------------------------------------------------------ settings


def test_settings_fall_back_to_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_SEARCH_ENDPOINT", "https://name.search.windows.net")
    monkeypatch.setenv("AZURE_SEARCH_API_KEY", " SECRET-FROM-ENV ")
    found = Settings()
    assert found.endpoint == "https://name.search.windows.net"
    assert found.api_key is not None
    assert found.api_key.get_secret_value() == "SECRET-FROM-ENV"
    assert "SECRET" not in repr(found)


@pytest.mark.parametrize("missing", ["endpoint", "api_key"])
def test_what_is_missing_is_a_config_error(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    variable = f"AZURE_SEARCH_{missing.upper()}"
    monkeypatch.delenv(variable, raising=False)
    given = {"endpoint": "https://name.search.windows.net", "api_key": KEY}
    del given[missing]
    with pytest.raises(ConfigError, match=variable) as caught:
        registry.build("vector_stores", "azure_ai_search", given)
    assert caught.value.field == f"vector_store.config.{missing}"


@pytest.mark.parametrize(
    "wrong",
    [
        {"api_key": "two words"}, {"endpoint": "name"}, {"endpoint": "https://u:p@host"}, {"api_version": "latest"},
        {"prefix": "Upper"}, {"prefix": "a--b"}, {"prefix": "a-"}, {"prefix": "x" * 41}, {"index": "x"},
    ],
    ids=str,
)  # fmt: skip
def test_settings_that_are_wrong(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError) as caught:
        Settings(**{"endpoint": "https://name.search.windows.net", "api_key": KEY, **wrong})
    assert "two words" not in str(caught.value)


# ------------------------------------------------------------------ failures


def test_a_version_that_the_service_does_not_know(make: Make) -> None:
    with pytest.raises(VectorStoreError, match="api-version"):
        make(api_version="2020-06-30").open()


PARTLY = {"key": "k", "status": False, "errorMessage": "Out of storage", "statusCode": 422}
LATER = {**PARTLY, "errorMessage": "Try again", "statusCode": 503}


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Reply(403), "admin key"),
        (Reply.of({"value": [PARTLY]}, 207), r"1 of 1 documents were refused \(422\): Out of storage"),
    ],
    ids=["403", "partly"],
)
def test_what_will_not_pass_is_told_at_once(service: AzureSearch, store: Sync, fault: Reply, said: str) -> None:
    store.count("c")
    service.heard.clear()
    service.faults.append(fault)
    with pytest.raises(VectorStoreError, match=said):
        store.apply("c", [], ["absent"])
    assert len(service.heard) == 1


def test_documents_that_are_refused_for_a_while_are_sent_again(service: AzureSearch, store: Sync) -> None:
    store.count("c")
    service.faults.append(Reply.of({"value": [LATER]}, 207))
    store.apply("c", [row("a")])
    assert ids(store.list("c")) == ["a"]
