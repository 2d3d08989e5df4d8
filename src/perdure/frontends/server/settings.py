"""Settings of the server: the `server` table of perdure.toml, or PERDURE_SERVER__... variables."""

from __future__ import annotations

import ipaddress
import json
import os
import re
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from perdure.backends.validation import config_error
from perdure.engine.config.config import MemoryConfig
from perdure.frontends.mcp import DEFAULT, Profile

DEFAULT_PORT = 8100
HANDLE_KEY_VARIABLE = "PERDURE_MCP_SECRET"
ATTACH_VARIABLE = "PERDURE_MCP_ATTACH_TOKEN"  # from `perdure serve` to its workers, never from the user
ANY = "*"  # every host, or every origin
_HOST_NAME = re.compile(r"\*|(?:\*\.)?[^\s*:/?#@\[\]]+|\[?[0-9a-f:.]+\]?", re.IGNORECASE)
_ORIGIN = re.compile(r"\*|[a-z][a-z0-9+.-]*://[^\s*/?#@]+", re.IGNORECASE)


class JwtSettings(BaseModel):
    """How tokens are verified; a shared secret is read only from PERDURE_JWT_SECRET."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    public_key: Path | None = Field(None, description="PEM file of the public key for RS256 or ES256 tokens")
    jwks_url: str | None = Field(None, pattern="^https?://", description="URL of an identity provider's keys (JWKS)")
    audience: str | None = Field(None, description="Required `aud` of every token")
    issuer: str | None = Field(None, description="Required `iss` of every token")


class ServerSettings(BaseModel):
    """Address, limits and authentication of the server."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    host: str = Field("127.0.0.1", min_length=1, description="Address to listen on")
    port: int = Field(DEFAULT_PORT, ge=0, le=65535, description="Port to listen on; 0 picks a free one")
    open: bool = Field(False, description="Whether an address other than loopback is served without keys")
    allowed_hosts: tuple[str, ...] = Field(
        (),
        description="Accepted names in the Host of a request, besides loopback and the server's own "
        'address: ["memory.example.com"], "*.example.com" for all subdomains, "*" for '
        "any; others are 421",
    )
    allowed_origins: tuple[str, ...] = Field(
        (),
        description="Origins of web pages that may send requests (CORS), besides the server's own: "
        '["https://chat.example.com"], "*" for any; others are 403',
    )
    workers: int = Field(1, ge=1, le=64, description="Number of worker processes")
    max_body_bytes: int = Field(10_000_000, ge=1, description="Maximum bytes of a request's body")
    request_seconds: int = Field(
        30,
        ge=1,
        description="Seconds for the head of a request to arrive, and for its body plus one for each "
        "kilobyte; a slower request is 408",
    )
    rate_per_minute: int = Field(
        0,
        ge=0,
        description="Maximum requests a minute of one key, or of one address without a key, "
        "in each worker; 0 is unlimited",
    )
    trust_client_user_id: bool = Field(
        True,
        description="Whether a request may name its user_id; set false behind a proxy that "
        "authenticates people and names them in x-authz-user-id",
    )
    graceful_seconds: int = Field(
        30, ge=1, description="Seconds for running requests to finish when the server is told to stop"
    )
    mcp_profiles: tuple[Profile, ...] = Field(
        DEFAULT, description="Sets of tools at /mcp: " + ", ".join(f"`{name}`" for name in get_args(Profile))
    )
    jwt: JwtSettings = Field(default_factory=JwtSettings, description="Tokens of people and teams")

    @field_validator("allowed_hosts", "allowed_origins", "mcp_profiles", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        """Parse a list in an environment variable: JSON, or names separated by commas."""
        if not isinstance(value, str):
            return value
        if value.lstrip().startswith("["):
            try:
                return json.loads(value)
            except ValueError:
                raise ValueError("must be a list of names") from None
        return [each.strip() for each in value.split(",") if each.strip()]

    @field_validator("allowed_hosts")
    @classmethod
    def _hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for each in value:
            if not _HOST_NAME.fullmatch(each):
                raise ValueError(f"must be names or addresses without scheme and port, and {each!r} is none")
        return tuple(plain_host(each) for each in value)

    @field_validator("allowed_origins")
    @classmethod
    def _origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for each in value:
            if not _ORIGIN.fullmatch(each):
                raise ValueError(f"must be origins as https://chat.example.com, without a path, and {each!r} is none")
        return tuple(each.lower() for each in value)

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return is_loopback(plain_host(self.host))


class ServerSecrets(BaseModel):
    """Settings that are read only from the environment, and never shown."""

    model_config = ConfigDict(frozen=True)

    jwt_secret: SecretStr | None = None
    """The shared secret of HS256 tokens: PERDURE_JWT_SECRET."""
    key_pepper: SecretStr | None = None
    """The pepper of API keys' hashes: PERDURE_KEY_PEPPER."""
    mcp_secret: SecretStr | None = None
    """The key of the handles that confirm a `forget` by MCP: PERDURE_MCP_SECRET. Workers and replicas share it."""
    attach_token: SecretStr | None = None
    """What `perdure mcp` of the same folder sends, which reads it in the folder; `perdure serve` makes a new one."""

    @classmethod
    def read(cls) -> ServerSecrets:
        """Read the secrets from the environment."""
        return cls(
            jwt_secret=_secret("PERDURE_JWT_SECRET"),
            key_pepper=_secret("PERDURE_KEY_PEPPER"),
            mcp_secret=_secret(HANDLE_KEY_VARIABLE),
            attach_token=_secret(ATTACH_VARIABLE),
        )


def read_settings(config: MemoryConfig) -> ServerSettings:
    """Return the server's settings of a configuration; ConfigError names the key and the nearest known one."""
    try:
        return ServerSettings(**config.server)
    except ValidationError as error:
        raise config_error(error, ServerSettings, "server") from error


def plain_host(host: str) -> str:
    """Normalise a host's name or address for comparison."""
    name = host.strip("[]").lower().removesuffix(".")
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return name
    return str(getattr(address, "ipv4_mapped", None) or address)


def is_loopback(host: str) -> bool:
    """Whether a host, normalised by `plain_host`, is this machine: `localhost`, 127.0.0.0/8 or ::1."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _secret(name: str) -> SecretStr | None:
    value = os.environ.get(name, "").strip()
    return SecretStr(value) if value else None
