"""pgvector's clauses: inside a scope no index of everybody's rows is asked."""

from __future__ import annotations

from perdure.backends.vector_stores.common.filter_clauses import narrow
from perdure.backends.vector_stores.pgvector.sql import GRAMMAR, Clause
from perdure.domain.filter import Condition, Filter, Moment, Not, all_of, eq, parse_filter

INDEXED = "tokens && %s::text[]"
UNINDEXED = "(tokens && %s::text[]) IS TRUE"


def clause(filter: Filter | None) -> Clause:
    found = narrow(filter, GRAMMAR).clause
    assert found is not None
    return found


def test_a_scope_is_found_by_its_index_and_the_rest_looked_at() -> None:
    now = Moment("2026-01-01T00:00:00.000000+00:00")
    found = clause(all_of(eq("user_id", "alice"), eq("state", "live"), Not(Condition("expires_at", "lte", now))))
    assert found.scoped
    assert "payload->>'user_id' = %s" in found.sql
    assert UNINDEXED in found.sql
    assert f"AND {INDEXED}" not in found.sql
    assert found.values[0] == "alice"


def test_that_holds_for_conditions_inside_or() -> None:
    either = parse_filter({"OR": [{"tag": "work"}, {"tag": "home"}]})
    found = clause(all_of(eq("user_id", "alice"), either))
    assert found.sql.count(UNINDEXED) == 2


def test_without_a_scope_the_index_of_tokens_serves() -> None:
    for one in (eq("state", "live"), all_of(eq("state", "live"), eq("kind", "facts"))):
        found = clause(one)
        assert not found.scoped
        assert INDEXED in found.sql
        assert UNINDEXED not in found.sql
    either = parse_filter({"OR": [{"user_id": "alice"}, {"tag": "home"}]})
    assert not clause(either).scoped
    assert INDEXED in clause(either).sql
