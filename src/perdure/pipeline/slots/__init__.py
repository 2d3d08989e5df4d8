"""Typed slots: what a statement says, as subject, attribute and value in canonical form."""

from perdure.pipeline.slots.read import read, read_slots
from perdure.pipeline.slots.reading import USER, Chunk, Mood, Party, Reading, Slot
from perdure.pipeline.slots.values import Value, comparable, fits

__all__ = ["USER", "Chunk", "Mood", "Party", "Reading", "Slot", "Value", "comparable", "fits", "read", "read_slots"]
