"""What `perdure hook` does, within a second: it asks the worker, or starts one. Standard library only.

The worker has the engine and the model in memory; a process that loads them answers too late.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from perdure.frontends.hooks.events import Event, answer
from perdure.frontends.hooks.place import ROLES, HookPlace, append_turn

POLL_SECONDS = 0.02
SEND_SECONDS = 0.2
"""How long a notice that nobody waits for may take."""
MOST_BYTES = 1_000_000


def run_hook(event: Event, memory: Path, scope: dict[str, str], until: float) -> str:
    """Handle one event before the moment `until` of the monotonic clock; return the hook's output, often empty."""
    place = HookPlace.of(memory)
    if event.name in ROLES:
        append_turn(place, event, scope)
    request = {
        "event": event.name,
        "session": event.session,
        "text": event.text,
        "project": event.project,
        "fresh": event.is_fresh,
        "scope": scope,
    }
    if event.name in ("Stop", "SessionEnd"):
        with _connected(place, memory, until) as line:
            line.settimeout(SEND_SECONDS)
            line.sendall(json.dumps(request).encode() + b"\n")
        return answer(event, "")
    if event.name not in event.dialect.takes_context:
        return answer(event, "")  # the turn is stored, and learned after the assistant's answer
    with _connected(place, memory, until) as line:
        return answer(event, _ask(line, request, until))


def _ask(line: socket.socket, request: dict[str, Any], until: float) -> str:
    line.settimeout(max(0.001, until - time.monotonic()))
    line.sendall(json.dumps(request).encode() + b"\n")
    told = b""
    while not told.endswith(b"\n") and len(told) < MOST_BYTES:
        line.settimeout(max(0.001, until - time.monotonic()))
        part = line.recv(65_536)
        if not part:
            return ""
        told += part
    found = json.loads(told)
    return str(found.get("context", ""))


def _connected(place: HookPlace, memory: Path, until: float) -> socket.socket:
    """Connect to the worker, after starting one if there is none; TimeoutError if it is not there in time."""
    has_started = False
    while True:
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            line.settimeout(max(0.001, until - time.monotonic()))
            line.connect(str(place.socket))
        except (FileNotFoundError, ConnectionRefusedError):
            line.close()
        except BaseException:
            line.close()
            raise
        else:
            return line
        if not has_started:
            start_worker(place, memory)
            has_started = True
        if time.monotonic() + POLL_SECONDS >= until:
            raise TimeoutError("the worker has not started yet")
        time.sleep(POLL_SECONDS)


def start_worker(place: HookPlace, memory: Path) -> None:
    """Start the worker as a process of its own, which outlives this one; a second one ends by itself."""
    program = [sys.executable, "-m", "perdure.frontends.cli.main"]
    arguments = [*program, "hook", "--worker", "--path", str(memory.expanduser().resolve())]
    with place.log.open("ab") as log:
        subprocess.Popen(  # noqa: S603 - our own program, and no shell
            arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/"
        )
