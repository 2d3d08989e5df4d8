"""Chores: the deletions of upkeep and the feedback that steers them, over one kernel (issue 7)."""

from __future__ import annotations

from perdure.engine.accesses import Accesses
from perdure.engine.kernel import Kernel
from perdure.engine.upkeep.expiry import Expiry
from perdure.engine.upkeep.feedback import Feedback
from perdure.engine.upkeep.quotas import Quotas
from perdure.engine.upkeep.retention import Pruning


class Chores:
    """What an engine does to stay small."""

    def __init__(self, kernel: Kernel, accesses: Accesses) -> None:
        self.prune = Pruning(kernel, accesses)
        self.expire = Expiry(kernel)
        self.quotas = Quotas(kernel, accesses)
        self.feedback = Feedback(kernel)
        kernel.quota = self.quotas
