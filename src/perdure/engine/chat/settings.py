"""Settings of the gateway: the `gateway` table of perdure.toml, or PERDURE_GATEWAY__... variables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from perdure.domain.scope import Scope
from perdure.pipeline.retrieval.weights import RECENCY_WEIGHT, TRADE

# Who is talking, and the scope in which it is stored.

GLOBAL = "global"  # the run that every conversation of one user, or of one restricted caller, also reads
DEFAULT = "default"  # the run of a conversation without a name
Dialect = Literal["chat", "responses"]  # the API of the client; each has its own search steps and defaults


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """One conversation with a model."""

    scope: Scope  # facts are stored in, and read from, this scope
    shared: Scope | None = None
    """The `global` run of the same user or scope, never across them; None if `scope` has no run."""
    session: str  # the name of the session inside `scope` that counts the turns
    dialect: Dialect
    team: str | None = None  # the team whose CANONICAL facts enter each prompt
    project: str | None = None  # the team's project


Injection = Literal["system", "prepend_user", "user_message"]
"""Position of the memories: in the system prompt, before the last user text, or in a message before it."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, defer_build=True)


class UpstreamSettings(_Section):
    """The model's server."""

    base_url: str | None = Field(
        None, pattern="^https?://", description="Address of the OpenAI-compatible API, with its /v1"
    )
    api_key: SecretStr | None = Field(
        None, description="Key sent upstream if a request brings none of its own; else OPENAI_API_KEY"
    )
    responses: Literal["auto", "native", "translate"] = Field(
        "auto", description="Whether the server has a Responses API; `auto` asks it once"
    )
    connect_seconds: float = Field(10.0, gt=0, description="Seconds to wait for a connection")
    silent_seconds: float = Field(600.0, gt=0, description="Seconds without a byte after which an answer is aborted")


class CompressionSettings(_Section):
    """Compression of a long history into a state."""

    enabled: bool = Field(False, description="Whether old messages are replaced by a structured state")
    every_turns: int = Field(10, ge=1, description="Turns after which the state is rebuilt")
    keep_turns: int = Field(5, ge=1, description="Last turns that are sent unchanged")
    ttl_hours: float = Field(24.0, gt=0, description="Hours for which an unused state is kept")


class GatewaySettings(_Section):
    """What the gateway recalls, injects and stores."""

    enabled: bool = Field(True, description="Whether the gateway uses memory; without it requests pass unchanged")
    auto_store: bool = Field(
        True, description="Whether turns are stored and read for facts, unless a request says otherwise"
    )
    upstream: UpstreamSettings = Field(default_factory=UpstreamSettings)

    default_retrieval_limit: int = Field(5, ge=1, description="Maximum memories in a prompt")
    default_similarity_threshold: float | None = Field(
        None, ge=0, le=1, description="Least score of a memory; by default 0.6 for Responses, none for chat"
    )
    chat_similarity_threshold: float | None = Field(
        None, ge=0, le=1, description="Least score of a memory in a chat; by default `default_similarity_threshold`"
    )
    responses_similarity_threshold: float | None = Field(
        None, ge=0, le=1, description="The same for Responses; by default `default_similarity_threshold`"
    )
    recency_weight: float = Field(RECENCY_WEIGHT, ge=0, le=1, description="Share of recency in the score, in chat")
    mmr_lambda: float = Field(TRADE, ge=0, le=1, description="Relevance against variety, in chat; 1 is relevance alone")
    recall_seconds: float = Field(1.0, gt=0, le=1.0, description="Seconds after which a request goes on without memory")
    chat_injection: Injection = Field("prepend_user", description="Position of the memories in a chat")
    responses_injection: Injection = Field("system", description="Position of the memories in a Responses request")
    injected_tokens: int = Field(2048, ge=64, description="Maximum tokens of all injected text")
    quarantine: bool = Field(
        True, description="Whether text of tools, and text that reads like an order, is kept out of prompts"
    )
    disabled_models: list[str] = Field(default_factory=list, description="Models whose requests get no memory")

    extraction_batch_size: int | None = Field(
        None,
        ge=1,
        description="Turns of a session after which facts are extracted, by a model in one call; by default 10 for "
        "Responses, 1 for chat",
    )
    quiet_seconds: float | None = Field(
        None,
        ge=0,
        description="Seconds of silence after which the unread turns of a session are read; 0 is not "
        "before it ends, or another one begins. By default 5 with rules, 0 with a model",
    )
    extract_with_upstream: bool = Field(
        False,
        description="Whether the model of the request also extracts facts, with the request's own "
        "key, if no `extraction_llm` or `llm` is set",
    )
    session_minutes: float = Field(30.0, gt=0, description="Minutes of silence after which a session ends")
    drift_threshold: float | None = Field(
        None, ge=-1, le=1, description="Cosine of two turns below which the subject counts as changed; by default never"
    )
    summaries: bool = Field(True, description="Whether each conversation has a rolling summary")
    at_session_end: list[Literal["consolidate", "reflect"]] = Field(
        default_factory=list, description="Maintenance of the memories of a session's scope when it ends"
    )
    max_entries: int = Field(0, ge=0, description="Maximum facts and turns of a conversation; 0 is unlimited")
    compression: CompressionSettings = Field(default_factory=CompressionSettings)
    response_cache_seconds: float = Field(
        0.0, ge=0, description="Seconds for which the answer to an identical request is repeated; 0 is never"
    )

    def threshold(self, dialect: Dialect) -> float | None:
        """Return the least score of a memory in a dialect if the request sets none; None means the preset's."""
        own = self.chat_similarity_threshold if dialect == "chat" else self.responses_similarity_threshold
        return self.default_similarity_threshold if own is None else own
