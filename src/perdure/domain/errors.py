"""Everything that perdure raises on purpose.

    PerdureError
    ├── InvalidInputError        a value given by the caller is wrong: names the field and the value
    │   ├── ScopeError           no user, agent or run was given
    │   ├── FilterError          a filter expression without a meaning
    │   └── ConfigError          a setting that is unknown, missing or impossible
    ├── NotFoundError            the memory or event does not exist
    ├── ConflictError            the change would contradict a later one
    │   └── QuotaError           a user has reached their quota
    ├── AuthenticationError      the caller could not be identified
    ├── ForbiddenError           the caller may not do that
    ├── ReadOnlyError            the memory is on a read-only folder or disk
    ├── PromotionRequiredError   a truth level was set, which only a promotion may do
    ├── ClosedError              the memory was closed
    ├── VectorStoreError         the vector store failed
    │   └── NoCollectionError    it has no such collection
    ├── GraphError               the graph failed
    │   ├── GraphDownError       it cannot be reached: the same call may succeed later
    │   └── NoGraphError         none is configured
    ├── LedgerError              the ledger failed after it had been opened
    ├── EmbeddingError           the embedder failed
    ├── LLMError                 the language model failed
    ├── RerankerError            the reranker failed
    ├── UpstreamError            the gateway could not reach the model's server
    └── DependencyError          a driver is not installed: says the pip line

Vendor exceptions are translated into these inside `backends/`; HTTP status codes are chosen in `frontends/faults.py`.
"""

from __future__ import annotations


class PerdureError(Exception):
    """Base of all errors of perdure; `code` is a stable word for programs, the text is for people."""

    code = "perdure_error"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code

    def amend(self, sentence: str, *, code: str | None = None) -> None:
        """Add a sentence, and a code if given, to an error whose consequences are known only further up."""
        self.message = f"{self.message}; {sentence}"
        self.args = (self.message, *self.args[1:])
        if code is not None:
            self.code = code


class InvalidInputError(PerdureError, ValueError):
    """A value given by the caller is wrong; nothing was changed."""

    code = "invalid_input"

    def __init__(self, message: str, *, field: str | None = None, value: object = None) -> None:
        super().__init__(message)
        self.field = field
        self.value = value


KEPT = "kept_in_journal"
"""The code of a change that could neither be completed nor removed from the journal: it is completed later."""


class ScopeError(InvalidInputError):
    """No user_id, agent_id or run_id was given."""

    code = "scope_missing"
    TEXT = "At least one of user_id, agent_id, or run_id must be provided"

    def __init__(self, message: str = TEXT, *, field: str | None = None, value: object = None) -> None:
        super().__init__(message, field=field, value=value)


class FilterError(InvalidInputError):
    """A filter expression that has no meaning."""

    code = "invalid_filter"


class ConfigError(InvalidInputError):
    """A setting that is unknown, missing or impossible."""

    code = "invalid_config"


class NotFoundError(PerdureError, LookupError):
    """The memory or event named by the caller does not exist."""

    code = "not_found"


class ConflictError(PerdureError):
    """The change would contradict a later one, which the message names."""

    code = "conflict"


class QuotaError(ConflictError):
    """A user has reached their quota, and the configuration rejects further memories."""

    code = "quota_exceeded"


class AuthenticationError(PerdureError):
    """The caller could not be identified: credentials are missing, wrong or expired."""

    code = "unauthenticated"


class ForbiddenError(PerdureError):
    """The caller may not do that."""

    code = "forbidden"


class ReadOnlyError(PerdureError):
    """The memory is in a read-only folder or on a read-only disk; nothing was changed."""

    code = "read_only"


class PromotionRequiredError(PerdureError):
    """A truth level was set directly; only a promotion may change it."""

    code = "promotion_required"


class ClosedError(PerdureError):
    """The memory was closed and cannot be used any more."""

    code = "closed"


class VectorStoreError(PerdureError):
    """The vector store could not be reached or refused an operation."""

    code = "vector_store_error"


class NoCollectionError(VectorStoreError):
    """The collection does not exist, or no longer does."""

    code = "no_collection"

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no collection {name!r}: create it first")


class GraphError(PerdureError):
    """The graph could not perform the operation."""

    code = "graph_error"


class GraphDownError(GraphError):
    """The graph is unreachable; the same call may succeed later."""

    code = "graph_down"


class NoGraphError(GraphError):
    """No graph is configured."""

    code = "no_graph"

    def __init__(self, message: str = 'no graph is configured: set graph_store, as in {"provider": "sqlite"}') -> None:
        super().__init__(message)


class LedgerError(PerdureError):
    """The ledger failed after it had been opened; nothing was applied."""

    code = "ledger_error"


class LedgerLockedError(LedgerError):
    """Another writer held the ledger for longer than a write waits; nothing was applied, and a later try may be."""


class EmbeddingError(PerdureError):
    """The embedder could not turn a text into a vector."""

    code = "embedding_error"


class LLMError(PerdureError):
    """The language model could not be reached or refused the request."""

    code = "llm_error"


class RerankerError(PerdureError):
    """The reranker could not score texts against a query."""

    code = "reranker_error"


class UpstreamError(PerdureError):
    """The model's server could not be reached, or broke off. Its own answers, errors included, are passed on."""

    code = "upstream_error"


class DependencyError(PerdureError, ImportError):
    """A driver is not installed; the message holds the command that installs it."""

    code = "dependency_missing"
