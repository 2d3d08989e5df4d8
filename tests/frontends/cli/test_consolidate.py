"""perdure consolidate and perdure reflect: the real program."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.frontends.cli.runs import Folder, folder

pytestmark = pytest.mark.covers("V69", "V70")

HAWAII = ("Budget for Hawaii is $10,000", "Added $2,000 to Hawaii budget", "Final Hawaii budget is $12,000")
MERGED = "Hawaii budget is $12,000 (updated from initial $10,000)"
NOBODY = "7b0f6d3e-6f0f-4d3e-9a55-0a2b6f1f6f10"


@pytest.fixture
def at(tmp_path: Path) -> Folder:
    return folder(tmp_path / "memory")


@pytest.mark.covers("V69")
def test_consolidate_by_ids_and_by_scope(at: Folder) -> None:
    ids = [at.said(text) for text in HAWAII]
    dry = at.ask("consolidate", *ids, "--dry-run")
    assert (dry["memory"]["memory"], dry["dry_run"]) == (MERGED, True)
    assert at.texts() == list(HAWAII)
    done = at.ask("consolidate", *ids)
    assert done["memory"]["derived_from"] == ids
    assert at.texts() == [MERGED]
    at.ask("import", "-", stdin='{"memory": "Hawaii trip to Maui costs $900", "user_id": "ana"}')
    assert at.ask("consolidate", "--user-id", "ana", "--at-least", "3") == {"results": []}
    at.ask("import", "-", stdin='{"memory": "Hawaii trip to Maui costs $900 a head", "user_id": "ana"}')
    ran = at("consolidate", "--user-id", "ana")
    assert ran.status == 0
    assert ran.out.splitlines()[-1] == "now\tHawaii trip to Maui costs $900 a head"
    assert at.ask("consolidate", "--user-id", "ana") == {"results": []}


@pytest.mark.covers("V69")
def test_what_is_wrong_with_it_is_told(at: Folder) -> None:
    one, other = at.said(HAWAII[0]), at.said(HAWAII[2], "bob")
    assert at("consolidate").status == 2
    assert at("consolidate", one, "--user-id", "ana").status == 2
    assert at("consolidate", one).status == 2
    differ = at("consolidate", one, other)
    assert (differ.status, "user_id" in differ.err) == (2, True)
    assert at("consolidate", one, NOBODY).status == 3
    assert at.texts() == [HAWAII[0]]


@pytest.mark.covers("V69", "V70")
def test_afterwards_all_of_it_agrees_and_can_be_carried_elsewhere(at: Folder, tmp_path: Path) -> None:
    ids = [at.said(text) for text in HAWAII]
    for _ in range(3):
        at.said("User deployed payment-service")
    merged = at.ask("consolidate", *ids)["memory"]["id"]
    insight = at.ask("reflect", "--user-id", "ana")["results"][0]["id"]
    assert at("doctor").status == 0
    other = folder(tmp_path / "other")
    assert other("import", "-", stdin=at("export").out).status == 0
    assert other.texts() == at.texts()
    assert other("doctor").status == 0
    assert other.ask("get", merged)["derived_from"] == ids
    report = other.ask("forget", ids[0])
    assert [item["id"] for item in report["results"]] == [merged]
    assert other.ask("get", insight)["id"] == insight
    assert other("doctor").status == 0


@pytest.mark.covers("V70")
def test_reflect_shows_and_keeps_what_it_finds(at: Folder) -> None:
    ids = [at.said("User deployed payment-service") for _ in range(3)]
    content = "User frequently deployed payment-service (3 times)"
    dry = at.ask("reflect", "--user-id", "ana", "--dry-run")
    assert (dry["results"][0]["id"], dry["added"]) == (None, 0)
    done = at.ask("reflect", "--user-id", "ana")
    assert (done["added"], done["results"][0]["content"]) == (1, content)
    assert done["results"][0]["memory_ids"] == ids
    ran = at("reflect", "--user-id", "ana", "--about", "deployment")
    assert ran.out == f"3\t{content}\t3\n"
    assert at("reflect", "--user-id", "ana", "--about", "cooking").out == ""
    assert at.texts("ana").count(content) == 1
    assert at("reflect").status == 2
