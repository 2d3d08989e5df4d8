"""Typed slots: what a statement says, as subject, attribute and value in canonical form."""

from perdure.pipeline.curation.rules.slots.read import read, read_slots
from perdure.pipeline.curation.rules.slots.scan import USER, Chunk, Mood, Party, Reading, Slot, Value, comparable, fits

__all__ = ["USER", "Chunk", "Mood", "Party", "Reading", "Slot", "Value", "comparable", "fits", "read", "read_slots"]
