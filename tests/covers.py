"""The table of the specifications' codes and their tests, which a run of all tests prints at its end.

A test names the codes that it covers: `@pytest.mark.covers("V51", "X18")`. `tests/covers.txt` lists every code.
A row names two tests and counts the others; `--covers-table` prints all of them. Under xdist each worker hands over
the table of what it collected.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

LIST = Path(__file__).with_name("covers.txt")
TESTS_OF = pytest.StashKey[dict[str, list[str]]]()


def listed() -> dict[str, bool]:
    """Every code of the list, and whether the list says that a test covers it."""
    rows = [line.split() for line in LIST.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return {row[0]: row[1:] != ["-"] for row in rows}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer the table with every test."""
    parser.addoption("--covers-table", action="store_true", help="print each code of the specifications with all tests")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Note the tests of each code, by the markers of what was collected; parameters of one test count once."""
    found: dict[str, list[str]] = {}
    for item in session.items:
        name = item.nodeid.split("[")[0]
        for code in {code for mark in item.iter_markers("covers") for code in mark.args}:
            tests = found.setdefault(code, [])
            if not tests or tests[-1] != name:
                tests.append(name)
    if found or TESTS_OF not in session.config.stash:
        session.config.stash[TESTS_OF] = found


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the table of a worker to the controller."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["covers"] = session.config.stash.get(TESTS_OF, {})


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Take a worker's table: each worker collects all tests, so any one of them has the whole."""
    table = getattr(node, "workeroutput", {}).get("covers")
    if table:
        node.config.stash[TESTS_OF] = table


def row(code: str, tests: list[str], *, whole: bool = False) -> str:
    """Write one line of the table: a code and the tests that cover it, the first two unless `whole`."""
    shown = tests if whole else [test.removeprefix("tests/") for test in tests[:2]]
    more = len(tests) - len(shown)
    return f"{code:4} {', '.join(shown) or 'no test'}{f' and {more} more' if more else ''}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the table, and which codes no test covers; nothing where only some tests were asked for."""
    whole = config.getoption("covers_table")
    if not whole and config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    table = config.stash.get(TESTS_OF, {})
    codes = list(listed())
    terminalreporter.section("codes of the specifications")
    for code in codes:
        terminalreporter.line(row(code, table.get(code, []), whole=whole))
    missing = [code for code in codes if code not in table]
    terminalreporter.line(
        f"{len(codes) - len(missing)} of {len(codes)} covered; by no test: {' '.join(missing) or 'none'}"
    )
