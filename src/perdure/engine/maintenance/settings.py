"""Settings of upkeep: the `upkeep` table of perdure.toml, or PERDURE_UPKEEP__... variables."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from perdure.pipeline.maintenance.retention import GRACE_DAYS, INITIAL_DAYS, THRESHOLD


class UpkeepSettings(BaseModel):
    """What a server does by itself and how often, and what its commands go by; 0 hours is never."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    expire_hours: float = Field(1.0, ge=0, description="Hours between two deletions of what is past its expires_at")
    prune_hours: float = Field(0.0, ge=0, description="Hours between two deletions of what has decayed")
    quota_hours: float = Field(1.0, ge=0, description="Hours between two looks for users beyond their quota")
    consolidate_hours: float = Field(0.0, ge=0, description="Hours between two mergings of what belongs together")
    reflect_hours: float = Field(0.0, ge=0, description="Hours between two readings for insights")
    backup_hours: float = Field(0.0, ge=0, description="Hours between two backups")

    consolidate_from: int = Field(
        20, ge=2, description="Memories that somebody must have before any of theirs are merged"
    )
    initial_strength_days: float = Field(INITIAL_DAYS, gt=0, description="S0 of R = e^(-t/S), in days")
    prune_threshold: float = Field(THRESHOLD, ge=0, le=1, description="R below which a memory is pruned")
    grace_days: float = Field(GRACE_DAYS, ge=0, description="Days for which a fact is new, and is never pruned")

    max_memories_per_user: int = Field(0, ge=0, description="Memories that one user may have; 0 is any number")
    when_full: Literal["evict", "refuse"] = Field(
        "evict", description="Whether a full user's least valued memories go, or new ones are refused"
    )

    backup_folder: Path | None = Field(None, description="Where backups are written; by default `backups` in `path`")
    backups_kept: int = Field(7, ge=1, description="Scheduled backups that are kept, the newest")
