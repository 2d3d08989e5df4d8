"""The list of codes in tests/covers.txt agrees with the tests' markers."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.covers import listed, row

HERE = Path(__file__).parent


def marked() -> dict[str, list[str]]:
    """Each code that a marker names, with the files that name it."""
    found: dict[str, list[str]] = {}
    for path in sorted(HERE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.covers":
                for argument in node.args:
                    assert isinstance(argument, ast.Constant), f"{path}:{node.lineno} names no plain code"
                    found.setdefault(str(argument.value), []).append(path.name)
    return found


def test_every_marked_code_is_listed() -> None:
    assert {code: files for code, files in marked().items() if code not in listed()} == {}


def test_the_list_says_which_codes_no_test_covers() -> None:
    found = marked()
    said = listed()
    assert [code for code in said if said[code] and code not in found] == [], "no test covers these any more"
    assert [code for code in said if not said[code] and code in found] == [], "take the `-` away: a test covers these"


def test_a_row_names_two_tests_and_counts_the_others() -> None:
    tests = ["tests/test_a.py::test_one", "tests/test_a.py::test_two", "tests/test_b.py::test_three"]
    assert row("V1", []) == "V1   no test"
    assert row("V51", tests[:1]) == "V51  test_a.py::test_one"
    assert row("V51", tests) == "V51  test_a.py::test_one, test_a.py::test_two and 1 more"
    assert row("V51", tests, whole=True) == f"V51  {', '.join(tests)}"
