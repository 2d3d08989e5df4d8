"""Reconciliation by rules: what a new fact does to the memories near it, without a model."""

from perdure.pipeline.reconciliation.agree import same_matter
from perdure.pipeline.reconciliation.decide import decide

__all__ = ["decide", "same_matter"]
