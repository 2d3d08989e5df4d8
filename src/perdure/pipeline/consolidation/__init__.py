"""Consolidation: memories that belong together, and the one text that several of them come to (V69, B12)."""

from perdure.pipeline.consolidation.grouping import Member, groups
from perdure.pipeline.consolidation.merging import Condensed, condense, merge

__all__ = ["Condensed", "Member", "condense", "groups", "merge"]
