"""Tokens: which signatures are believed, and what their claims must be."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from perdure.domain.errors import ConfigError
from perdure.frontends.server.auth.jwt import JwtVerifier
from perdure.frontends.server.settings import JwtSettings, ServerSecrets
from tests.frontends.server.probes import probes
from tests.frontends.server.running import SECRET, Running, bearer, running, token

pytestmark = pytest.mark.covers("X25")

PRIVATE = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER = rsa.generate_private_key(public_exponent=65537, key_size=2048)
CURVE = ec.generate_private_key(ec.SECP256R1())


def pem(key: Any) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def signed(key: Any, algorithm: str, headers: dict[str, str] | None = None, **claims: Any) -> str:
    given = {"sub": "ana", "team": "red", "exp": datetime.now(UTC) + timedelta(minutes=5), **claims}
    private = (
        key if isinstance(key, (str, bytes)) else key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    return jwt.encode({name: value for name, value in given.items() if value is not None}, private, algorithm, headers)


def ask(server: Running, made: str) -> httpx.Response:
    return server.client.get("/probe/caller", headers={**bearer(made), "X-Team-Scope": "red"})


def unsigned() -> str:
    part = lambda value: base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()  # noqa: E731
    return f"{part({'alg': 'none', 'typ': 'JWT'})}.{part({'sub': 'ana', 'team': 'red', 'exp': 9999999999})}."


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server that believes the shared secret, for an audience and of an issuer."""
    settings = {"jwt": {"audience": "perdure", "issuer": "https://idp"}}
    folder = tmp_path_factory.mktemp("shared")
    with running(folder, settings=settings, env={"PERDURE_JWT_SECRET": SECRET}, routes=probes()) as found:
        yield found


GOOD: dict[str, Any] = {"team": "red", "aud": "perdure", "iss": "https://idp"}


@pytest.mark.covers("X25")
def test_a_good_token_is_taken(shared: Running) -> None:
    assert ask(shared, token(**GOOD)).status_code == 200
    assert ask(shared, token(**GOOD, role="service", projects=["a", "b"])).json()["projects"] == ["a", "b"]


@pytest.mark.covers("X25")
@pytest.mark.parametrize(
    "made",
    [
        lambda: token(**GOOD, seconds=-1),
        lambda: token(**GOOD, exp=None),
        lambda: token(**GOOD, secret="another secret that is long enough to sign with"),
        lambda: token(**{**GOOD, "aud": "another"}),
        lambda: token(**{**GOOD, "iss": "https://another"}),
        lambda: token(team="red"),
        lambda: token(**GOOD, nbf=9999999999),
        lambda: token("", **GOOD),
        lambda: token(5, **GOOD),  # type: ignore[arg-type]
        lambda: token(**GOOD, role="owner"),
        lambda: token(**GOOD, projects="apollo", teams={"red": 1}),
        lambda: token(**GOOD)[:-2] + "xx",
        lambda: signed(SECRET, "HS512", **GOOD),
        lambda: signed(PRIVATE, "RS256", **GOOD),
        unsigned,
        lambda: "a.b.c",
    ],
    ids=[
        *("expired", "no-exp", "other-secret", "other-audience", "other-issuer", "no-audience", "not-yet", "no-sub"),
        *("sub-is-a-number", "unknown-role", "teams-are-no-list", "spoilt", "hs512", "rs256", "none", "garbage"),
    ],
)
def test_a_token_that_is_not_good_is_401(shared: Running, made: Any) -> None:
    answer = ask(shared, made())
    assert answer.status_code == 401
    assert SECRET not in answer.text


@pytest.mark.covers("X25")
def test_a_token_without_bearer_is_401(shared: Running) -> None:
    good = token(**GOOD)
    assert ask(shared, good).status_code == 200
    for value in (good, f"Token {good}", f"JWT {good}"):
        headers = {"Authorization": value, "X-Team-Scope": "red"}
        assert shared.client.get("/probe/caller", headers=headers).status_code == 401
    assert shared.client.get("/probe/caller", headers={"X-Team-Scope": "red", "X-API-Key": good}).status_code == 401


@pytest.mark.parametrize(("key", "algorithm"), [(PRIVATE, "RS256"), (CURVE, "ES256")], ids=["rs256", "es256"])
def test_a_public_key_file_verifies_its_own_kind_and_no_other(tmp_path: Path, key: Any, algorithm: str) -> None:
    file = tmp_path / "public.pem"
    file.write_bytes(pem(key))
    settings = {"jwt": {"public_key": str(file)}}
    with running(tmp_path / "memory", settings=settings, routes=probes()) as server:
        assert ask(server, signed(key, algorithm)).status_code == 200
        assert ask(server, signed(OTHER, "RS256")).status_code == 401
        # The classic confusion: the public key's text as the secret of an HMAC.
        confused = _hmac_by(pem(key))
        assert ask(server, confused).status_code == 401
        assert ask(server, unsigned()).status_code == 401


def _hmac_by(secret: bytes) -> str:
    """A token by HS256 over a public key's text, which PyJWT itself refuses to make."""
    import hashlib
    import hmac

    part = lambda value: base64.urlsafe_b64encode(value).rstrip(b"=")  # noqa: E731
    claims = {"sub": "ana", "team": "red", "exp": 9999999999}
    body = part(b'{"alg":"HS256","typ":"JWT"}') + b"." + part(json.dumps(claims).encode())
    return (body + b"." + part(hmac.new(secret, body, hashlib.sha256).digest())).decode()


@pytest.mark.parametrize("text", [b"not a key", None], ids=["no-key", "no-file"])
def test_a_public_key_that_cannot_be_read_is_an_error_at_once(tmp_path: Path, text: bytes | None) -> None:
    file = tmp_path / "public.pem"
    if text is not None:
        file.write_bytes(text)
    with pytest.raises(ConfigError, match="public_key"):
        JwtVerifier(JwtSettings(public_key=file), ServerSecrets())


# ------------------------------------------------------------------ JWKS


class Provider:
    """An identity provider's JWKS address, whose keys change."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {}
        self.asked = 0
        self.works = True
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.asked += 1
                self.send_response(200 if provider.works else 500)
                self.end_headers()
                self.wfile.write(json.dumps({"keys": [provider._jwk(kid) for kid in provider.keys]}).encode())

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/jwks"

    def _jwk(self, kid: str) -> dict[str, Any]:
        key = self.keys[kid]
        algorithm = jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
        name = "RS256" if isinstance(key, rsa.RSAPrivateKey) else "ES256"
        return {**json.loads(algorithm.to_jwk(key.public_key())), "kid": kid, "use": "sig", "alg": name}


@pytest.fixture
def provider() -> Iterator[Provider]:
    found = Provider()
    thread = threading.Thread(target=found.server.serve_forever, daemon=True)
    thread.start()
    yield found
    found.server.shutdown()
    found.server.server_close()
    thread.join()


def test_keys_of_a_jwks_address_are_fetched_once_and_again_for_an_unknown_key(
    tmp_path: Path, provider: Provider
) -> None:
    provider.keys = {"first": PRIVATE}
    with running(tmp_path, settings={"jwt": {"jwks_url": provider.url}}, routes=probes()) as server:
        first = signed(PRIVATE, "RS256", {"kid": "first"})
        assert [ask(server, first).status_code for _ in range(3)] == [200, 200, 200]
        assert provider.asked == 1, "the keys are cached"
        provider.keys = {"second": OTHER, "third": CURVE}
        assert ask(server, signed(OTHER, "RS256", {"kid": "second"})).status_code == 200
        assert ask(server, signed(CURVE, "ES256", {"kid": "third"})).status_code == 200
        assert provider.asked == 2
        assert ask(server, first).status_code == 401, "the provider has taken it back"
        assert ask(server, signed(PRIVATE, "RS256", {"kid": "second"})).status_code == 401
        assert ask(server, _hmac_by(pem(OTHER))).status_code == 401


def test_tokens_of_unknown_keys_cannot_make_the_server_fetch_without_end(tmp_path: Path, provider: Provider) -> None:
    provider.keys = {"first": PRIVATE}
    with running(tmp_path, settings={"jwt": {"jwks_url": provider.url}}, routes=probes()) as server:
        for number in range(30):
            assert ask(server, signed(OTHER, "RS256", {"kid": f"made-up-{number}"})).status_code == 401
        assert provider.asked <= 8
        assert ask(server, signed(PRIVATE, "RS256", {"kid": "first"})).status_code == 200


def test_a_provider_that_is_down_refuses_and_comes_back(tmp_path: Path, provider: Provider) -> None:
    provider.keys, provider.works = {"first": PRIVATE}, False
    with running(tmp_path, settings={"jwt": {"jwks_url": provider.url}}, routes=probes()) as server:
        good = signed(PRIVATE, "RS256", {"kid": "first"})
        assert ask(server, good).status_code == 401
        provider.works = True
        assert ask(server, good).status_code == 200
