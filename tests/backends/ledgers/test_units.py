"""Every method of a ledger's ports is implemented by some unit of work."""

from __future__ import annotations

import pytest

from perdure.backends.ledgers.sql import ledger, units

CLASSES = (
    ledger.SqlLedger,
    ledger.SqlJobs,
    ledger.SqlKeys,
    ledger.SqlPromotions,
    ledger.SqlAudit,
    ledger.SqlSettings,
    ledger.SqlSessions,
    ledger.SqlChains,
    ledger.SqlRuntime,
)


@pytest.mark.parametrize("cls", CLASSES)
def test_each_method_that_a_class_forwards_has_a_unit(cls: type) -> None:
    units.load()
    forwarded = [value.__wrapped__ for value in vars(cls).values() if hasattr(value, "__wrapped__")]
    assert forwarded
    assert [method.__qualname__ for method in forwarded if method.__qualname__ not in units._CALLS] == []


def test_no_method_is_left_abstract() -> None:
    assert [cls.__name__ for cls in CLASSES if cls.__abstractmethods__] == []
