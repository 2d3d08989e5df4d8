"""Which worker runs which test: pytest-xdist's own way by groups, at a cost that does not grow with the tests done.

pytest-xdist 3.8 counts all tests that a worker was ever given, whenever one of them is done: eleven minutes of its
process for 18,600 tests (`LoadScopeScheduling._pending_of`), which two cores have not to spare.
"""

from __future__ import annotations

from xdist.scheduler import LoadGroupScheduling
from xdist.workermanage import WorkerController


class GroupScheduling(LoadGroupScheduling):
    """The same order and the same groups; a group whose tests are all done is not counted again."""

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Take note that a worker has done a test, and give it more where it is about to have none."""
        test = self.registered_collections[node][item_index]
        group = self._split_scope(test)
        given = self.assigned_work[node]
        given[group][test] = True
        if all(given[group].values()):
            del given[group]
        self._reschedule(node)
