"""Filters: what an error advises does what it says."""

from __future__ import annotations

import json

import pytest

from perdure.domain.errors import FilterError
from perdure.domain.filter import matches, parse_filter


def test_the_advice_on_a_missing_field_finds_what_lacks_it() -> None:
    with pytest.raises(FilterError, match="to find items that have no text in this field") as caught:
        parse_filter({"tag": None})
    advised = parse_filter(json.loads(str(caught.value).partition("this field: ")[2].removesuffix(")")))
    assert advised is not None
    assert matches(advised, {"metadata": {}})
    assert not matches(advised, {"metadata": {"tag": ""}})
    assert not matches(advised, {"metadata": {"tag": "x"}})
