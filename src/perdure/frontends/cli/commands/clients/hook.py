"""The command hook, which a client runs at the events of a session. It imports nothing heavy before it has answered."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import Annotated

import typer

from perdure.domain.errors import InvalidInputError, ScopeError
from perdure.domain.scope import Scope
from perdure.frontends.cli.commands.clients import AgentOption, ProjectOption, RunOption, UserOption
from perdure.frontends.cli.options import PathOption, folder
from perdure.frontends.hooks.events import DIALECTS, read_event

DEADLINE_SECONDS = 0.9
"""Age of the process at which it ends with nothing, so that no prompt waits for a second."""
LEAST_SECONDS = 0.2
"""What it takes to store a turn and to start the worker, also where the interpreter took longer than all of that."""


def hook(
    *,
    worker: Annotated[
        bool, typer.Option("--worker", help="Run the process behind the hooks, which the first hook starts.")
    ] = False,
    client: Annotated[
        str, typer.Option("--client", metavar="NAME", help="Whose hook it is: " + ", ".join(DIALECTS) + ".")
    ] = "claude-code",
    event: Annotated[
        str | None,
        typer.Option("--event", metavar="NAME", help="The event, if the client's input does not name it."),
    ] = None,
    user_id: UserOption = None,
    agent_id: AgentOption = None,
    run_id: RunOption = None,
    project_id: ProjectOption = None,
    path: PathOption = None,
) -> None:
    """Answer a hook of an agent's client: its JSON on standard input, the answer on standard output.

    At the start of a session and at each prompt it adds what is remembered, at most 600 tokens and never the same
    memory twice. What was said is learned after the answer. It ends within a second, and with status 0 whatever fails:
    the client goes on without memory. Its output is the client's JSON, so there is no --json.

    Example: perdure hook --user-id ana
    """
    place = folder(path)
    if worker:
        from perdure.frontends.cli.open_memory import read_settings
        from perdure.frontends.hooks.worker import run_worker

        run_worker(lambda: read_settings(place), place)
        return
    if sys.stdin.isatty():
        sys.stderr.write(
            "perdure: a client runs this command and writes JSON to it; docs/hooks.md says how to set it up\n"
        )
        return
    left = max(LEAST_SECONDS, DEADLINE_SECONDS - _age_seconds())
    until = time.monotonic() + left
    watch = threading.Timer(left, os._exit, (0,))
    watch.daemon = True
    watch.start()
    try:
        scope = Scope(user_id=user_id, agent_id=agent_id, run_id=run_id, project_id=project_id)
        told = _answered(place, scope, until, client, event)
    except Exception as error:  # the client must go on, whatever it is
        sys.stderr.write(f"perdure: no memory at this event: {error}\n")
        told = DIALECTS[client].nothing if client in DIALECTS else ""
    watch.cancel()
    sys.stdout.write(told)


def _age_seconds() -> float:
    """Return for how long this process has run; 0 where the system does not say."""
    try:
        fields = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, ValueError, IndexError):
        return 0.0


def _answered(place: Path, scope: Scope, until: float, client: str, called: str | None) -> str:
    from perdure.frontends.hooks.client import run_hook

    if client not in DIALECTS:
        raise InvalidInputError(f"--client must be one of {', '.join(DIALECTS)}, not {client!r}", field="client")
    if not (scope.user_id or scope.agent_id or scope.run_id):
        raise ScopeError
    event = read_event(sys.stdin.buffer.read().decode("utf-8", "replace"), client, called)
    return DIALECTS[client].nothing if event is None else run_hook(event, place, scope.given(), until)
