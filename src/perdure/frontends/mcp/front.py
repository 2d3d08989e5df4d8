"""The first words of `perdure mcp`: what every memory answers alike is answered before the SDK is imported.

`front.json` has the SDK's own answers to the handshake and to the lists, written and checked by docs/generate.py.
The SDK reads every line too, so its state is as if it had answered. Standard library only.
"""

from __future__ import annotations

import json
import os
import queue
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

WAIT_SECONDS = 0.5
"""How long the import of the SDK waits for the list of tools to be asked for."""
HANDSHAKE = "handshake"
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
CLIENT_KEY = "io.modelcontextprotocol/clientInfo"
NOBODY = {"name": "", "version": ""}

Id = tuple[type, str | int]
"""A request's id: 1 and "1" are two."""


class FirstWords:
    """Known answers of one server, in the era that the client's first request opens."""

    def __init__(self, known: Mapping[str, Any], profiles: Sequence[str]) -> None:
        self._known = known
        self._tools = [tool for profile in known["tools"] if profile in profiles for tool in known["tools"][profile]]
        self._era: str | None = None

    @classmethod
    def of(cls, profiles: Sequence[str]) -> FirstWords | None:
        """Return the answers for these profiles; None if the server will refuse their names."""
        known = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
        found = cls(known, profiles)
        names = [tool["name"] for tool in found._tools]
        return found if {*profiles} <= {*known["tools"]} and len(names) == len({*names}) else None

    def answer(self, message: Any) -> dict[str, Any] | None:
        """Return the result for a request as plain as most clients make it; None for all else, which the SDK answers.

        A client whose capabilities have a wrong form is not refused here: the SDK refuses its first call.
        """
        if not isinstance(message, dict) or not {*message} <= {"jsonrpc", "id", "method", "params"}:
            return None
        method, params = message.get("method"), message.get("params", {})
        is_request = message.get("jsonrpc") == "2.0" and id_of(message) is not None
        if not is_request or not isinstance(method, str) or not isinstance(params, dict):
            return None
        era = self._era_of(method, params)
        found = None if era is None else self._known[era].get(method)
        if not isinstance(found, dict):
            return None
        self._era = era
        if method == "initialize":
            asked = params["protocolVersion"]
            return found | ({"protocolVersion": asked} if asked in self._known[HANDSHAKE]["versions"] else {})
        return found | {"tools": self._tools} if method == "tools/list" else found

    def _era_of(self, method: str, params: dict[str, Any]) -> str | None:
        """Return the era of a request, None if it is in none, or not in the one that is open."""
        if method == "initialize":
            client, able = params.get("clientInfo"), params.get("capabilities")
            is_whole = isinstance(params.get("protocolVersion"), str) and _is_client(client) and isinstance(able, dict)
            return HANDSHAKE if is_whole and self._era is None else None
        meta = params.get("_meta", {})
        if not {*params} <= {"_meta"} or not isinstance(meta, dict):
            return None  # a cursor, for example
        if VERSION_KEY not in meta:
            return HANDSHAKE if self._era == HANDSHAKE else None
        version, client = meta[VERSION_KEY], meta.get(CLIENT_KEY, NOBODY)
        is_whole = isinstance(meta.get(CAPABILITIES_KEY), dict) and _is_client(client)
        is_known = version in self._known["modern"] and self._era in (None, version)
        return str(version) if is_whole and is_known else None


def id_of(message: Mapping[str, Any]) -> Id | None:
    """Return a message's id; None if it has none that the protocol allows."""
    found = message.get("id")
    return (type(found), found) if isinstance(found, str | int) and not isinstance(found, bool) else None


def _is_client(told: Any) -> bool:
    return isinstance(told, dict) and isinstance(told.get("name"), str) and isinstance(told.get("version"), str)


class Front:
    """Reads standard input on a thread of its own and keeps each line for the SDK; answers until it must not.

    The first message without a known answer ends that: from there on the SDK alone answers, in its order.
    """

    def __init__(self, words: FirstWords | None) -> None:
        self._words = words
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._wanted = threading.Event()
        self._answered: set[Id] = set()
        self._input = os.fdopen(os.dup(0), "rb")
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)  # what this process starts must not read the protocol
        os.close(nothing)

    def start(self) -> None:
        """Begin to read; return when the SDK is wanted: the tools were listed, a message needs it, or time is up."""
        threading.Thread(target=self._read, name="front", daemon=True).start()
        self._wanted.wait(WAIT_SECONDS)

    def hand_over(self) -> None:
        """Answer nothing from now on; the SDK writes to standard output."""
        with self._lock:
            self._words = None

    def readline(self) -> str:
        """Return the next line for the SDK, from the first one that the client wrote; empty at the end."""
        return self._lines.get()

    def has_answered(self, request: Id) -> bool:
        """Return whether a request was answered here, once."""
        with self._lock:
            if request not in self._answered:
                return False
            self._answered.remove(request)
            return True

    def _read(self) -> None:
        with self._input:
            for line in self._input:
                with self._lock:
                    if self._words is not None:
                        self._handle(line)
                    self._lines.put(line.decode("utf-8", "replace"))
        self._lines.put("")
        self._wanted.set()

    def _handle(self, line: bytes) -> None:
        assert self._words is not None, "looked at before"
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        if isinstance(message, dict) and message.get("method") == "notifications/initialized" and "id" not in message:
            return
        result = self._words.answer(message)
        if result is None:
            self._words = None
            self._wanted.set()
            return
        found = id_of(message)
        assert found is not None, "an answer has one"
        self._answered.add(found)
        told = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        _write(json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
        if message["method"] == "tools/list":
            self._wanted.set()


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]
