"""Verification of JWTs that an identity provider signed, for people and teams."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from jwt.warnings import InsecureKeyLengthWarning

from perdure.domain.access import ROLES, Caller, Role
from perdure.domain.clock import system_clock
from perdure.domain.errors import AuthenticationError, ConfigError, InvalidInputError
from perdure.domain.scope import Scope
from perdure.frontends.server.middleware.rate_limit import RateLimit
from perdure.frontends.server.settings import JwtSettings, ServerSecrets

SHARED, RSA, CURVE = "HS256", "RS256", "ES256"
JWKS_SECONDS = 300.0  # how long fetched keys are used before they are fetched again
JWKS_TIMEOUT = 5.0
REFETCHES_A_MINUTE = 6  # fetches per minute that tokens with unknown key ids can cause


class JwtVerifier:
    """Verifies tokens by a shared secret, a public key file, or the keys of a JWKS address.

    The key decides the algorithm, never the token: HS256 only with the secret, RS256 and ES256 only with public keys of
    their kind.
    """

    def __init__(self, settings: JwtSettings, secrets: ServerSecrets) -> None:
        self._settings = settings
        self._secret = secrets.jwt_secret.get_secret_value() if secrets.jwt_secret else None
        self._public: dict[str, Any] = _read_public_key(settings)
        self._jwks = _Jwks(settings.jwks_url) if settings.jwks_url else None

    @property
    def configured(self) -> bool:
        """Whether a secret, a public key or a JWKS address is configured."""
        return bool(self._secret or self._public or self._jwks)

    async def verify(self, token: str) -> Caller:
        """Return the caller of a token; AuthenticationError says what is wrong with it."""
        try:
            header = jwt.get_unverified_header(token)
            algorithm = str(header.get("alg"))
            key = await self._key(algorithm, header.get("kid"))
            claims = self._claims(token, key, algorithm)
        except jwt.ExpiredSignatureError as error:
            raise AuthenticationError("the token has expired: get a fresh one") from error
        except jwt.MissingRequiredClaimError as error:
            raise AuthenticationError(f"the token has no {error.claim}") from error
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise AuthenticationError("the token is not valid here") from error
        return _caller_of(claims)

    async def _key(self, algorithm: str, kid: object) -> Any:
        if algorithm == SHARED and self._secret is not None:
            return self._secret
        if algorithm in self._public:
            return self._public[algorithm]
        if algorithm in (RSA, CURVE) and self._jwks is not None:
            return await self._jwks.key(algorithm, kid)
        raise AuthenticationError("the token is signed in a way that is not believed here")

    def _claims(self, token: str, key: Any, algorithm: str) -> dict[str, Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InsecureKeyLengthWarning)  # said once, when the server starts
            return jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=self._settings.audience,
                issuer=self._settings.issuer,
                options={"require": ["exp", "sub"], "verify_aud": self._settings.audience is not None},
            )


class _Jwks:
    """The keys of a JWKS address, fetched on first use, after JWKS_SECONDS, and for an unknown key id."""

    def __init__(self, url: str) -> None:
        self._client = jwt.PyJWKClient(url, cache_keys=False, cache_jwk_set=False, timeout=JWKS_TIMEOUT)
        self._keys: list[jwt.PyJWK] = []
        self._fetched = float("-inf")
        self._limit = RateLimit(REFETCHES_A_MINUTE)
        self._lock = asyncio.Lock()

    async def key(self, algorithm: str, kid: object) -> Any:
        """Return the key with this id for this algorithm."""
        if time.monotonic() - self._fetched > JWKS_SECONDS:
            await self._fetch(self._fetched)
        found = self._find(algorithm, kid)
        if found is None:
            await self._fetch(self._fetched)
            found = self._find(algorithm, kid)
        if found is None:
            raise AuthenticationError("the token is signed by a key that is not known here")
        return found.key

    def _find(self, algorithm: str, kid: object) -> jwt.PyJWK | None:
        fitting = [key for key in self._keys if key.algorithm_name == algorithm and key.public_key_use in (None, "sig")]
        if kid is None:
            return fitting[0] if len(fitting) == 1 else None
        return next((key for key in fitting if key.key_id == kid), None)

    async def _fetch(self, seen: float) -> None:
        """Fetch the keys unless another task just did; if that fails, keep the earlier ones."""
        async with self._lock:
            allowance = self._limit.take("fetches")
            if self._fetched != seen or (allowance is not None and allowance.retry_after):
                return
            try:
                self._keys = jwt.PyJWKSet.from_dict(await asyncio.to_thread(self._client.fetch_data)).keys
            except (jwt.PyJWTError, ValueError) as error:
                if not self._keys:
                    raise AuthenticationError("the keys of the identity provider cannot be had now") from error
                return
            self._fetched = time.monotonic()


def _caller_of(claims: dict[str, Any]) -> Caller:
    """Build the caller from verified claims; outside of teams it sees only its subject's memory."""
    subject, role = claims["sub"], claims.get("role", "member")
    if not isinstance(subject, str) or not subject:
        raise AuthenticationError("the token's sub must name somebody")
    if role not in ROLES:
        raise AuthenticationError(f"the token's role must be one of {', '.join(ROLES)}")
    try:
        walls = Scope(user_id=subject)
    except InvalidInputError as error:
        raise AuthenticationError("the token's sub cannot be a user_id") from error
    return Caller(
        name=subject,
        role=role,
        walls=walls,
        subject=subject,
        teams=_names(claims, "team") | _names(claims, "teams"),
        projects=_names(claims, "projects"),
    )


def _names(claims: dict[str, Any], claim: str) -> frozenset[str]:
    value = claims.get(claim)
    values = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(values, list) or not all(isinstance(each, str) and each for each in values):
        raise AuthenticationError(f"the token's {claim} must be text, or a list of texts")
    return frozenset(values)


def mint(
    secret: str,
    *,
    sub: str,
    teams: Sequence[str] = (),
    role: Role = "member",
    projects: Sequence[str] = (),
    hours: float = 1.0,
    settings: JwtSettings | None = None,
) -> str:
    """Sign a token with the shared secret, for development without an identity provider."""
    now = system_clock()
    claims: dict[str, Any] = {"sub": sub, "role": role, "iat": now, "exp": now + timedelta(hours=hours)}
    named = {
        "teams": list(teams),
        "projects": list(projects),
        "aud": settings.audience if settings else None,
        "iss": settings.issuer if settings else None,
    }
    claims |= {name: value for name, value in named.items() if value}
    _caller_of(claims)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InsecureKeyLengthWarning)
        return jwt.encode(claims, secret, algorithm=SHARED)


def _read_public_key(settings: JwtSettings) -> dict[str, Any]:
    if settings.public_key is None:
        return {}
    file = settings.public_key.expanduser()
    try:
        key = load_pem_public_key(file.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"server.jwt.public_key: {file} cannot be read as a public key in PEM form",
            field="server.jwt.public_key",
            value=str(file),
        ) from error
    if isinstance(key, RSAPublicKey):
        return {RSA: key}
    if isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, SECP256R1):
        return {CURVE: key}
    raise ConfigError(
        f"server.jwt.public_key: {file} is neither an RSA nor a P-256 key",
        field="server.jwt.public_key",
        value=str(file),
    )
