"""compose.yaml and the Dockerfile name what exists: no engine runs them here, so they are held to the code."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from perdure.engine.build import build
from perdure.engine.config.config import MemoryConfig

ROOT = Path(__file__).parents[1]
GIVEN = {"POSTGRES_PASSWORD": "secretA1", "NEO4J_PASSWORD": "secretB2"}


@pytest.fixture
def services() -> dict[str, Any]:
    services: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]
    return services


def filled(value: str) -> str:
    """A value with its variables put in as Compose does; one that must be set and is not would be an error there."""

    def put(found: re.Match[str]) -> str:
        name, default = found[1], found[2]
        if default is not None and default.startswith(":-"):
            return GIVEN.get(name, default[2:])
        return GIVEN[name]

    return re.sub(r"\$\{(\w+)(:[-?][^}]*)?\}", put, value)


def test_the_environment_of_the_server_is_a_configuration(
    services: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in services["server"]["environment"].items():
        monkeypatch.setenv(name, filled(value))
    config = MemoryConfig()
    assert (config.vector_store.provider, config.history.provider) == ("pgvector", "postgres")
    assert config.graph_store is not None and config.graph_store.provider == "neo4j"
    build(config)  # every setting is checked, nothing is opened


def test_every_password_must_be_given_and_none_stands_in_the_file(services: dict[str, Any]) -> None:
    for service in services.values():
        for name, value in service["environment"].items():
            if "PASSWORD" in name or name in {"DATABASE_URL", "NEO4J_AUTH"}:
                assert re.search(r"\$\{\w+:\?", value), name


def test_only_loopback_is_published_and_data_lives_in_volumes(services: dict[str, Any]) -> None:
    published = [port for service in services.values() for port in service.get("ports", [])]
    assert published == ["127.0.0.1:8100:8100"]
    assert all(service["volumes"] for service in services.values())


def test_the_image_installs_extras_that_exist() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    found = re.search(r'pip install "\.\[([^\]]+)\]"', text)
    assert found is not None
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert {*found[1].split(",")} <= {*extras}
    copied = [word for line in re.findall(r"^COPY (?!--)(.+)$", text, re.M) for word in shlex.split(line)[:-1]]
    assert all((ROOT / name).exists() for name in copied)
    kept = (ROOT / ".dockerignore").read_text(encoding="utf-8")
    assert all(f"!{name}" in kept for name in copied)
