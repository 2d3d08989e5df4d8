"""`PERDURE_...` variables, read as pydantic-settings 2.16 read them: its answers were written down before it went."""

from __future__ import annotations

import os
from typing import Any

import pytest

from perdure.domain.errors import ConfigError
from perdure.engine.config.config import read_config, variables

READ: list[tuple[dict[str, str], dict[str, Any]]] = [
    # plain values stay text, which the settings then validate
    ({"PATH": "/a"}, {"path": "/a"}),
    ({"READING_LIMIT": "2000"}, {"reading_limit": "2000"}),
    ({"CURATOR": "rules"}, {"curator": "rules"}),
    ({"CURATOR": ""}, {"curator": ""}),
    ({"CURATOR": "null"}, {"curator": "null"}),
    ({"EPISODES": "off", "REWRITE": "llm"}, {"episodes": "off", "rewrite": "llm"}),
    ({"UNKNOWN": "1", "NO__SUCH": "1"}, {}),
    ({"": "1", "_": "1", "__LLM": "1"}, {}),
    ({"PATH__BELOW": "1", "CURATOR__BELOW": "1"}, {}),
    # names in any case, in the case of the field
    ({"path": "/a"}, {"path": "/a"}),
    ({"Vector_Store__provider": "memory"}, {"vector_store": {"provider": "memory"}}),
    ({"TEAM__APPROVERS__CANONICAL": "2"}, {"team": {"approvers": {"CANONICAL": "2"}}}),
    ({"TEAM__APPROVERS": '{"working": 1, "Other": 2}'}, {"team": {"approvers": {"WORKING": 1, "Other": 2}}}),
    ({"VECTOR_STORE": '{"Provider": "memory"}'}, {"vector_store": {"provider": "memory"}}),
    ({"VECTOR_STORE": '{"Config": {"Path": 1}}'}, {"vector_store": {"config": {"Path": 1}}}),
    # tables
    ({"VECTOR_STORE__PROVIDER": "5"}, {"vector_store": {"provider": "5"}}),
    ({"VECTOR_STORE__UNKNOWN": "5"}, {"vector_store": {"unknown": "5"}}),
    ({"VECTOR_STORE__UNKNOWN__X": "[5]"}, {"vector_store": {"unknown": {"x": "[5]"}}}),
    ({"VECTOR_STORE__PROVIDER__X": "5"}, {"vector_store": {"provider": {"x": "5"}}}),
    ({"VECTOR_STORE__": "5"}, {"vector_store": {"": "5"}}),
    ({"VECTOR_STORE____X": "5"}, {"vector_store": {"": {"x": "5"}}}),
    ({"VECTOR_STORE_PROVIDER": "5"}, {}),
    ({"GATEWAY__UPSTREAM__BASE_URL": "http://x/v1"}, {"gateway": {"upstream": {"base_url": "http://x/v1"}}}),
    ({"GATEWAY__UPSTREAM": '{"base_url": "http://x"}'}, {"gateway": {"upstream": {"base_url": "http://x"}}}),
    ({"GATEWAY__ENABLED": "false"}, {"gateway": {"enabled": "false"}}),
    ({"GATEWAY__DEFAULT_SIMILARITY_THRESHOLD": "0.5"}, {"gateway": {"default_similarity_threshold": "0.5"}}),
    ({"UPKEEP__BACKUP_FOLDER": "[a]"}, {"upkeep": {"backup_folder": "[a]"}}),
    ({"HISTORY__DB_PATH": "7"}, {"history": {"db_path": "7"}}),
    # tables of any keys: below one, text; below a table of settings that is one itself, what is JSON
    ({"LLM__CONFIG__MODEL": "m"}, {"llm": {"config": {"model": "m"}}}),
    ({"LLM__CONFIG__MAX_TOKENS": "5"}, {"llm": {"config": {"max_tokens": "5"}}}),
    ({"LLM__CONFIG__STOP": '["a"]'}, {"llm": {"config": {"stop": '["a"]'}}}),
    ({"LLM__CONFIG__A__B": "5"}, {"llm": {"config": {"a": {"b": "5"}}}}),
    ({"LLM__CONFIG": '{"m": "m", "n": [1, true, null]}'}, {"llm": {"config": {"m": "m", "n": [1, True, None]}}}),
    ({"SERVER__PORT": "5"}, {"server": {"port": "5"}}),
    ({"SERVER__ALLOWED_HOSTS": '["a"]'}, {"server": {"allowed_hosts": '["a"]'}}),
    ({"SERVER__A__B": "5"}, {"server": {"a": {"b": 5}}}),
    ({"SERVER__A__B": '{"c": 1}', "SERVER__A__C": "no JSON"}, {"server": {"a": {"b": {"c": 1}, "c": "no JSON"}}}),
    ({"SERVER__A__B": ""}, {"server": {"a": {"b": ""}}}),
    ({"SERVER": '{"port": 5, "Host": "h"}'}, {"server": {"port": 5, "Host": "h"}}),
    ({"SERVER": "{}"}, {"server": {}}),
    ({"SERVER": "5"}, {"server": 5}),
    ({"SERVER": "[1]", "SERVER__PORT": "1"}, {"server": [1]}),
    # lists
    ({"GATEWAY__DISABLED_MODELS": '["a", "b"]'}, {"gateway": {"disabled_models": ["a", "b"]}}),
    ({"GATEWAY__DISABLED_MODELS": ""}, {"gateway": {"disabled_models": ""}}),
    ({"GATEWAY__DISABLED_MODELS": "3"}, {"gateway": {"disabled_models": 3}}),
    ({"GATEWAY__DISABLED_MODELS__0": "a"}, {"gateway": {"disabled_models": {"0": "a"}}}),
    ({"GATEWAY__AT_SESSION_END": '["reflect"]'}, {"gateway": {"at_session_end": ["reflect"]}}),
    # what may be none
    ({"LLM": '{"provider": "openai"}'}, {"llm": {"provider": "openai"}}),
    ({"LLM": "openai"}, {"llm": "openai"}),
    ({"LLM": ""}, {"llm": ""}),
    ({"LLM": "null"}, {}),
    ({"LLM": "null", "LLM__PROVIDER": "x"}, {}),
    ({"LLM": "5"}, {"llm": 5}),
    ({"LLM": "{}"}, {"llm": {}}),
    ({"LLM": "openai", "LLM__PROVIDER": "x"}, {"llm": "openai"}),
    ({"LLM__PROVIDER": ""}, {"llm": {"provider": ""}}),
    ({"GRAPH_STORE__PROVIDER": "none"}, {"graph_store": {"provider": "none"}}),
    ({"GRAPH_STORE": '{"provider": "sqlite"}'}, {"graph_store": {"provider": "sqlite"}}),
    ({"GRAPH_STORE__CONFIG__PATH": "/g"}, {"graph_store": {"config": {"path": "/g"}}}),
    ({"GATEWAY__UPSTREAM__API_KEY": '"k"'}, {"gateway": {"upstream": {"api_key": '"k"'}}}),
    ({"TEAM__APPROVERS": "2"}, {"team": {"approvers": 2}}),
    # a table's JSON, and what is told of it by name above that
    (
        {"LLM": '{"provider": "a", "config": {"model": "m", "n": 1}}', "LLM__CONFIG__MODEL": "o", "LLM__PROVIDER": "b"},
        {"llm": {"provider": "b", "config": {"model": "o", "n": 1}}},
    ),
    (
        {"VECTOR_STORE": '{"Provider": "a"}', "VECTOR_STORE__PROVIDER": "b"},
        {"vector_store": {"provider": "b"}},
    ),
    ({"SERVER": '{"port": 5, "a": {"b": 1}}', "SERVER__A__C": "2"}, {"server": {"port": 5, "a": {"b": 1, "c": 2}}}),
    (
        {"LLM__CONFIG": '{"model": "m", "n": 1}', "LLM__CONFIG__MODEL": "o"},
        {"llm": {"config": {"model": "o", "n": 1}}},
    ),
    ({"LLM__PROVIDER": "a", "LLM__PROVIDER__X": "b"}, {"llm": {"provider": "a"}}),
    ({"SERVER__A": "b", "SERVER__A__B__C": "1"}, {"server": {"a": "b"}}),
]

NO_JSON = {
    "VECTOR_STORE": "sqlite",
    "VECTOR_STORE__CONFIG": "{path: 1}",
    "EMBEDDER": "",
    "SERVER": "port=1",
    "GATEWAY__UPSTREAM": "http://x",
    "GATEWAY__DISABLED_MODELS": "a,b",
    "LLM__CONFIG": "{",
}


@pytest.fixture(autouse=True)
def _nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.upper().startswith("PERDURE_")]:
        monkeypatch.delenv(name)


def told(monkeypatch: pytest.MonkeyPatch, given: dict[str, str]) -> None:
    for name, value in given.items():
        monkeypatch.setenv(f"PERDURE_{name}", value)


@pytest.mark.parametrize(("given", "expected"), READ)
def test_what_is_read(given: dict[str, str], expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    told(monkeypatch, given)
    assert variables() == expected


def test_nothing_is_read_from_nothing() -> None:
    assert variables() == {}


@pytest.mark.parametrize("name", NO_JSON)
def test_a_table_that_is_no_json(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told(monkeypatch, {name: NO_JSON[name]})
    with pytest.raises(ConfigError, match=f"^PERDURE_{name} must be written as JSON") as error:
        read_config(None)
    assert error.value.field == f"PERDURE_{name}"


def test_the_order_of_the_environment_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """It did: a table's JSON replaced what had been told of its keys, if it came after them."""
    told(monkeypatch, {"LLM__CONFIG__MODEL": "o", "LLM__CONFIG": '{"model": "m", "n": 1}'})
    assert variables() == {"llm": {"config": {"model": "o", "n": 1}}}
