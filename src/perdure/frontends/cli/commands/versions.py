"""The commands for versions of a memory in files: log, diff, revert, branch, merge, pull and push."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure.frontends.cli.open_memory import with_memory
from perdure.frontends.cli.options import JsonOption, PathOption, folder
from perdure.frontends.cli.output import Column, note, print_json, print_table, print_text

if TYPE_CHECKING:
    from perdure.domain.file_versions import MergeReport, VersionChange

SHOWN_WORDS = 160  # characters of a message that are printed with the facts learned from it
SHORT = 8
MOST = 50  # changes of one version that `log` shows
PointOption = Annotated[
    str | None, typer.Argument(metavar="POINT", help="A commit, a branch, or a time such as 2026-03-01.")
]


def log(
    point: PointOption = None,
    *,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", help="How many at most.")] = 20,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """List versions, newest first, with what each one added, changed, deleted or erased, and from which words.

    Only a memory in files (vector_store.provider = "markdown") has versions: one after each turn.

    Example: perdure log --limit 5

    Example: perdure log 2026-03-01
    """
    versions = with_memory(folder(path), lambda memory: memory.versions.log(point, limit=limit))
    if as_json:
        print_json({"results": [version.model_dump() for version in versions]})
        return
    for number, version in enumerate(versions):
        if number:
            print_text("")
        print_text(f"{version.id[:SHORT]}  {version.at[:19].replace('T', ' ')}  {version.title}")
        _print_changes(version.changes[:MOST], indent="  ")
        if len(version.changes) > MOST:
            print_text(f"  and {len(version.changes) - MOST} more: perdure log {version.id[:SHORT]} --limit 1 --json")
    if not versions:
        note("there are no versions yet")


def diff(
    before: Annotated[str, typer.Argument(metavar="A", help="A commit, a branch, or a time such as 2026-03-01.")],
    after: Annotated[
        str | None, typer.Argument(metavar="[B]", help="Another; default the memory as it is now.")
    ] = None,
    *,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Show which facts were added, changed and removed between two versions, or since one.

    At a time before the first version there was nothing.

    Example: perdure diff 2026-03-01

    Example: perdure diff main experiment
    """
    found = with_memory(folder(path), lambda memory: memory.versions.diff(before, after))
    if as_json:
        print_json(found.model_dump())
        return
    _print_changes(found.results)
    if not found.results:
        note("nothing differs")


def revert(
    commit: Annotated[str, typer.Argument(metavar="COMMIT", help="The version to undo; perdure log lists them.")],
    *,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Undo the changes of one version: its additions go, and what it changed or deleted comes back.

    The revert is a version of its own, with history and undo. Messages stay, and erased text stays gone. If a later
    version built on this one, nothing is done: revert that one first.

    Example: perdure revert 3f6c1d2e
    """
    result = with_memory(folder(path), lambda memory: memory.versions.revert(commit))
    for warning in result.warnings:
        note(warning)
    if as_json:
        print_json(result.model_dump())
        return
    rows = [(event.event, event.memory, event.id) for event in result.results]
    print_table([Column("what", whole=True, style="bold"), Column("memory"), Column("id", whole=True)], rows)
    if not rows:
        note("nothing had to be taken back")


def branch(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The branch to switch to; created if new.")] = None,
    *,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """List branches, or switch to one; what is learned there stays there until a merge.

    Example: perdure branch

    Example: perdure branch experiment
    """
    if name is not None:
        report = with_memory(folder(path), lambda memory: memory.versions.branch(name))
        _tell(report, as_json, {"made": f"on the new branch {name}", "switched": f"on branch {name}"})
        return
    found = with_memory(folder(path), lambda memory: memory.versions.branches())
    if as_json:
        print_json({"results": [each.model_dump() for each in found]})
        return
    rows = [("*" if each.is_current else "", each.name, each.commit[:SHORT], each.at[:19]) for each in found]
    columns = [Column(""), Column("branch", whole=True, style="bold"), Column("version", whole=True)]
    print_table([*columns, Column("when", whole=True, style="cyan")], rows)


def merge(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The branch or commit to merge.")],
    *,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Merge the memories of another branch.

    If both sides changed a memory, the latest update wins and the other text is kept as a tombstone. Conflicting facts
    are listed; where the rules are sure, the later one replaces the earlier.

    Example: perdure merge experiment
    """
    report = with_memory(folder(path), lambda memory: memory.versions.merge(name))
    _tell(report, as_json, _MERGED)


def pull(*, as_json: JsonOption = False, path: PathOption = None) -> None:
    """Merge this branch from the remote. Add a remote with git: git remote add origin URL.

    Example: perdure pull
    """
    _tell(with_memory(folder(path), lambda memory: memory.versions.pull()), as_json, _MERGED)


def push(*, as_json: JsonOption = False, path: PathOption = None) -> None:
    """Push this branch to the remote; if the remote has newer versions, pull first.

    Example: perdure push
    """
    remote = with_memory(folder(path), lambda memory: memory.versions.push())
    if as_json:
        print_json({"remote": remote})
    else:
        note(f"pushed to {remote}")


_MERGED = {"merged": "merged", "forwarded": "nothing was to be settled", "nothing": "there is nothing new"}


def _tell(report: MergeReport, as_json: bool, words: Mapping[str, str]) -> None:
    if as_json:
        print_json(report.model_dump())
        return
    _print_changes(report.results)
    for change in report.conflicts:
        note(f"both sides changed memory {change.id}: the newer stands, the other is kept as a tombstone")
    for each in report.contradictions:
        ours, theirs = each["ours"], each["theirs"]
        stands = {"ours": "the first stands", "theirs": "the second stands", "both": "both stand: delete or update one"}
        note(f"two sides of one matter: {ours['memory']!r} here, {theirs['memory']!r} there; {stands[each['stands']]}")
    note(words.get(report.outcome, report.outcome))


def _print_changes(changes: Iterable[VersionChange], indent: str = "") -> None:
    told = list(changes)
    quoted = {each["content"] for change in told for each in change.learned_from}
    for change in told:
        if change.change == "heard" and change.after in quoted:
            continue  # it is printed beside the facts learned from it
        words = " / ".join(_words(each) for each in change.learned_from)
        print_text(f"{indent}{change.line}{f', learned from this message: {words}' if words else ''}")


def _words(message: Mapping[str, Any]) -> str:
    text = " ".join(str(message["content"]).split())
    return f"“{text if len(text) <= SHOWN_WORDS else text[: SHOWN_WORDS - 1] + '…'}”"
