"""perdure: a long-term memory engine for AI agents.

    from perdure import Memory

    with Memory.local("memories") as memory:
        memory.add("I just moved to Lisbon", user_id="ana")
        memory.search("where does she live?", user_id="ana")

Names are imported on first touch (PEP 562): `import perdure` loads no third-party package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.domain.errors import (
        AuthenticationError,
        ClosedError,
        ConfigError,
        ConflictError,
        DependencyError,
        EmbeddingError,
        FilterError,
        ForbiddenError,
        GraphDownError,
        GraphError,
        InvalidInputError,
        LedgerError,
        LLMError,
        NoGraphError,
        NotFoundError,
        PerdureError,
        PromotionRequiredError,
        QuotaError,
        ReadOnlyError,
        RerankerError,
        ScopeError,
        VectorStoreError,
    )
    from perdure.domain.event import (
        Absence,
        AddResult,
        ErasureReport,
        HistoryRecord,
        ListResult,
        MemoryEvent,
        SearchResult,
    )
    from perdure.domain.maintenance import BenchReport, Consolidation, Insight, Reflected
    from perdure.domain.memory import MemoryItem
    from perdure.domain.message import Message
    from perdure.domain.scope import Scope
    from perdure.domain.stored_memory import MemoryType
    from perdure.engine.config.config import MemoryConfig
    from perdure.frontends.library.memory import AsyncMemory, Memory
    from perdure.frontends.library.memory_client import MemoryClient
    from perdure.frontends.library.memory_store import AsyncMemoryStore, MemoryStore
    from perdure.frontends.library.memory_tool import AsyncMemoryTool, MemoryTool
    from perdure.frontends.library.runtime.agent_runtime import AgentRuntime
    from perdure.frontends.library.team import AsyncTeamMemory, TeamMemory

__version__ = "0.1.0"
__all__ = [
    "Absence", "AddResult", "AgentRuntime", "AsyncMemory", "AsyncMemoryStore", "AsyncMemoryTool", "AsyncTeamMemory",
    "AuthenticationError", "BenchReport", "ClosedError", "ConfigError", "ConflictError", "Consolidation",
    "DependencyError", "EmbeddingError", "ErasureReport", "FilterError", "ForbiddenError", "GraphDownError",
    "GraphError", "HistoryRecord", "Insight", "InvalidInputError", "LLMError", "LedgerError", "ListResult",
    "Memory", "MemoryClient", "MemoryConfig", "MemoryEvent", "MemoryItem", "MemoryStore", "MemoryTool",
    "MemoryType", "Message", "NoGraphError", "NotFoundError", "PerdureError", "PromotionRequiredError",
    "QuotaError", "ReadOnlyError", "Reflected", "RerankerError", "Scope", "ScopeError", "SearchResult",
    "TeamMemory", "VectorStoreError",
]  # fmt: skip
_HOMES = {
    "perdure.domain.maintenance": ("BenchReport", "Consolidation", "Insight", "Reflected"),
    "perdure.domain.event": (
        "Absence", "AddResult", "ErasureReport", "HistoryRecord", "ListResult", "MemoryEvent", "SearchResult",
    ),
    "perdure.domain.memory": ("MemoryItem",),
    "perdure.domain.message": ("Message",),
    "perdure.domain.scope": ("Scope",),
    "perdure.domain.stored_memory": ("MemoryType",),
    "perdure.engine.config.config": ("MemoryConfig",),
    "perdure.frontends.library.memory": ("AsyncMemory", "Memory"),
    "perdure.frontends.library.memory_store": ("AsyncMemoryStore", "MemoryStore"),
    "perdure.frontends.library.memory_tool": ("AsyncMemoryTool", "MemoryTool"),
    "perdure.frontends.library.team": ("AsyncTeamMemory", "TeamMemory"),
    "perdure.frontends.library.memory_client": ("MemoryClient",),
    "perdure.frontends.library.runtime.agent_runtime": ("AgentRuntime",),
}  # fmt: skip
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}
_HOME_OF |= {name: "perdure.domain.errors" for name in __all__ if name.endswith("Error")}


def __getattr__(name: str) -> Any:
    """The public name, imported now."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'perdure' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Every public name that exists so far."""
    return sorted([*__all__, "__version__"])
