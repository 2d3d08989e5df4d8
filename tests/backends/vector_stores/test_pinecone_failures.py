"""The `pinecone` store where settings are wrong or the service fails."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from perdure.backends import registry
from perdure.backends.vector_stores.pinecone import PineconeVectorStore
from perdure.domain.errors import ConfigError, VectorStoreError
from perdure.domain.filter import eq
from tests.backends.vector_stores import hosted_stores
from tests.backends.vector_stores.hosted_stores import PINECONE, Hosted
from tests.backends.wire.server import Reply
from tests.contracts.conftest import Sync, vector
from tests.engines.pinecone import KEY, Pinecone

loop, service, make, store = hosted_stores.loop, hosted_stores.service, hosted_stores.make, hosted_stores.store
ALICE = eq("user_id", "alice")


@pytest.fixture
def hosted() -> Hosted:
    return PINECONE


# ------------------------------------------------------------------ settings


def test_settings_fall_back_to_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PINECONE_API_KEY", " pcsk_from_env ")
    monkeypatch.setenv("PINECONE_CONTROLLER_HOST", "http://localhost:5080")
    found = PineconeVectorStore.Settings()
    assert found.api_key is not None
    assert found.api_key.get_secret_value() == "pcsk_from_env"
    assert found.base_url == "http://localhost:5080"
    assert "pcsk" not in repr(found)


def test_a_missing_key_is_a_config_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PINECONE_API_KEY", raising=False)
    with pytest.raises(ConfigError, match="PINECONE_API_KEY") as caught:
        registry.build("vector_stores", "pinecone", {})
    assert caught.value.field == "vector_store.config.api_key"


@pytest.mark.parametrize(
    "wrong",
    [
        {"api_key": "two words"}, {"api_key": "ünï"}, {"base_url": "localhost"}, {"cloud": "ibm"}, {"index": "Upper"},
        {"index": "-x"}, {"index": "x" * 31}, {"namespace": "a.b"}, {"namespace": ""}, {"region": ""}, {"host": "x"},
    ],
    ids=str,
)  # fmt: skip
def test_settings_that_are_wrong(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError) as caught:
        PineconeVectorStore.Settings(**{"api_key": KEY, **wrong})
    assert "two words" not in str(caught.value)


# ------------------------------------------------------------------ failures


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (PINECONE.error(403, "QUOTA_EXCEEDED"), "QUOTA_EXCEEDED.*plan"),
        (Reply(200, b"{"), "^pinecone: http://127"),
    ],
    ids=["quota", "broken"],
)
def test_what_will_not_pass_is_told_at_once(service: Pinecone, store: Sync, fault: Reply, said: str) -> None:
    store.count("c")
    service.heard.clear()
    service.faults.append(fault)
    with pytest.raises(VectorStoreError, match=said):
        store.search("c", vector(1), 5, ALICE)
    assert len(service.heard) == 1
