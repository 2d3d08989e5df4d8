"""Keys: made once, shown once, kept as a digest; and the commands that make them."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import jwt
import pytest

from perdure.backends.ledgers.repositories.base import Keys
from perdure.domain.errors import ConflictError, InvalidInputError, NotFoundError
from perdure.domain.scope import Scope
from perdure.engine import api_keys
from perdure.engine.build import build_ledger
from perdure.engine.config.config import read_config
from tests.frontends.cli.runs import Folder, folder
from tests.frontends.server.running import SECRET, bearer, running

T = TypeVar("T")


@pytest.fixture
def at(tmp_path: Path) -> Folder:
    return folder(tmp_path / "memory")


def desk(place: Path, work: Callable[[Keys], Awaitable[T]]) -> T:
    async def run() -> T:
        ledger = build_ledger(read_config({"path": str(place)}))
        await ledger.open()
        try:
            return await work(ledger.keys)
        finally:
            await ledger.close()

    return asyncio.run(run())


def bytes_in(place: Path) -> bytes:
    return b"".join(file.read_bytes() for file in place.rglob("*") if file.is_file())


# ------------------------------------------------------------------ the engine


def test_a_key_is_kept_as_its_digest_alone(tmp_path: Path) -> None:
    key, secret = desk(tmp_path, lambda found: api_keys.create(found, "app", walls=Scope(project_id="apollo")))
    assert re.fullmatch(r"perdure_[0-9a-f]{64}", secret)
    assert key.digest == hashlib.sha256(secret.encode()).hexdigest()
    assert secret.startswith(key.hint)
    assert len(key.hint) < len(secret) / 4
    assert "digest" not in key.model_dump()
    stored = bytes_in(tmp_path)
    assert key.digest.encode() in stored
    assert secret.encode() not in stored
    assert secret.removeprefix(api_keys.PREFIX).encode() not in stored
    assert desk(tmp_path, lambda found: api_keys.authenticate(found, secret)) == key
    assert desk(tmp_path, lambda found: api_keys.authenticate(found, secret[:-1])) is None
    assert desk(tmp_path, lambda found: api_keys.authenticate(found, key.digest)) is None, "the digest is no key"


def test_with_a_pepper_the_digest_alone_says_nothing(tmp_path: Path) -> None:
    key, secret = desk(tmp_path, lambda found: api_keys.create(found, "app", pepper="cayenne"))
    assert key.digest == hmac.new(b"cayenne", secret.encode(), hashlib.sha256).hexdigest()
    assert desk(tmp_path, lambda found: api_keys.authenticate(found, secret, pepper="cayenne")) == key
    assert desk(tmp_path, lambda found: api_keys.authenticate(found, secret, pepper="paprika")) is None
    assert desk(tmp_path, lambda found: api_keys.authenticate(found, secret)) is None


def test_a_name_is_taken_until_its_key_is_revoked(tmp_path: Path) -> None:
    first, secret = desk(tmp_path, lambda found: api_keys.create(found, "app"))
    with pytest.raises(ConflictError, match="app"):
        desk(tmp_path, lambda found: api_keys.create(found, "app"))
    ended = desk(tmp_path, lambda found: api_keys.revoke(found, "app"))
    assert (ended.id, ended.revoked_at is not None) == (first.id, True)
    assert desk(tmp_path, lambda found: api_keys.authenticate(found, secret)) is None
    second, _ = desk(tmp_path, lambda found: api_keys.create(found, "app"))
    assert [each.id for each in desk(tmp_path, lambda found: found.list())] == [first.id, second.id]
    desk(tmp_path, lambda found: api_keys.revoke(found, second.id))
    with pytest.raises(NotFoundError):
        desk(tmp_path, lambda found: api_keys.revoke(found, "app"))
    assert desk(tmp_path, lambda found: found.any()), "there was one"


@pytest.mark.parametrize("name", ["", "  ", "a" * 201, "two\nlines", "\x1b[31m", "\ud800"])
def test_a_name_is_something_that_can_be_printed(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInputError, match="name"):
        desk(tmp_path, lambda found: api_keys.create(found, name))
    assert desk(tmp_path, lambda found: found.list()) == []


# ------------------------------------------------------------------ the commands


def test_create_needs_nothing_else_and_prints_the_key_once(at: Folder) -> None:
    ran = at("keys", "create", "my app")
    assert ran.status == 0, ran.err
    secret = ran.out.strip()
    assert re.fullmatch(r"perdure_[0-9a-f]{64}", secret)
    assert secret not in ran.err
    listed = at("keys", "list")
    assert "my app\tmember\t" in listed.out
    assert secret not in listed.out
    assert secret.encode() not in bytes_in(at.path)


def test_create_list_revoke_as_json(at: Folder) -> None:
    made = at.ask("keys", "create", "bot", "--role", "service", "--project", "apollo", "--user", "ana", "--team", "red")
    assert made["walls"] == {"project_id": "apollo", "user_id": "ana", "team_id": "red"}
    assert (made["role"], made["revoked_at"], "digest" in made) == ("service", None, False)
    (listed,) = at.ask("keys", "list")["results"]
    assert listed == {name: value for name, value in made.items() if name != "key"}
    ended = at.ask("keys", "revoke", made["id"])
    assert (ended["id"], ended["revoked_at"] is not None) == (made["id"], True)
    assert at("keys", "revoke", "bot").status == 3
    assert at.ask("keys", "list")["results"] == [ended]


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("create", "app", "--role", "owner"), 2),
        (("create", ""), 2),
        (("create",), 2),
        (("create", "app", "--user", ""), 2),
        (("revoke", "nobody"), 3),
        (("token", "--sub", "ana"), 2),
        ((), 2),
    ],
)
def test_what_is_wrong_is_said_in_one_line_and_nothing_is_made(
    at: Folder, arguments: tuple[str, ...], status: int
) -> None:
    ran = at("keys", *arguments) if arguments else at("keys")
    assert ran.status == status
    assert ran.out == "" or not arguments
    assert at.ask("keys", "list")["results"] == []


def test_the_same_name_again_is_status_1(at: Folder) -> None:
    at.ask("keys", "create", "app")
    ran = at("keys", "create", "app")
    assert (ran.status, ran.out) == (1, "")
    assert "app" in ran.err


@pytest.mark.parametrize("command", ["create", "list", "revoke", "token"])
def test_every_keys_command_explains_itself(at: Folder, command: str) -> None:
    ran = at("keys", command, "--help")
    assert ran.status == 0
    assert f"Example: perdure keys {command}" in " ".join(ran.out.split())
    assert "--path" in ran.out
    assert "--json" in ran.out


def test_a_key_of_the_command_is_good_at_once_and_its_end_too(at: Folder) -> None:
    with running(at.path) as server:
        assert server.client.get("/metrics").status_code == 200
        secret = at.ask("keys", "create", "app")["key"]
        assert server.client.get("/metrics").status_code == 401
        assert server.client.get("/metrics", headers=bearer(secret)).status_code == 200
        at.ask("keys", "revoke", "app")
        assert server.client.get("/metrics", headers=bearer(secret)).status_code == 401


def test_a_pepper_belongs_to_command_and_server_alike(at: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_KEY_PEPPER", "cayenne")
    secret = at.ask("keys", "create", "app")["key"]
    with running(at.path) as peppered:
        assert peppered.client.get("/metrics", headers=bearer(secret)).status_code == 200
    monkeypatch.delenv("PERDURE_KEY_PEPPER")
    with running(at.path) as plain:
        assert plain.client.get("/metrics", headers=bearer(secret)).status_code == 401


def test_a_token_for_development_has_the_claims_of_u23g(at: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_JWT_SECRET", SECRET)
    options = ("--sub", "ana", "--team", "red", "--team", "blue", "--role", "admin", "--project", "apollo")
    made = at.ask("keys", "token", *options, "--hours", "2")["token"]
    claims = jwt.decode(made, SECRET, algorithms=["HS256"])
    assert 7_000 < claims.pop("exp") - time.time() < 7_300
    claims.pop("iat")
    assert claims == {"sub": "ana", "teams": ["red", "blue"], "role": "admin", "projects": ["apollo"]}
    assert SECRET not in at("keys", "token", "--sub", "ana").out
