"""Log lines as JSON objects: time, level, logger, message and request; never any user's text."""

from __future__ import annotations

import json
import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from perdure.domain.clock import iso

REQUEST_ID: ContextVar[str | None] = ContextVar("perdure_request_id", default=None)
"""The id of the current request, which is added to every log line."""


class JsonLines(logging.Formatter):
    """Formats one JSON object a line; a record's `fields` are added to its message."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        line: dict[str, Any] = {
            "time": iso(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        request_id = REQUEST_ID.get()
        if request_id is not None:
            line["request_id"] = request_id
        line |= getattr(record, "fields", {})
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = record.exc_info[0].__name__  # its text may contain what a user said
        return json.dumps(line, ensure_ascii=False)


def to_standard_error() -> None:
    """Write every log line of this process to standard error, as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    for name in ("perdure", "uvicorn"):
        logging.getLogger(name).setLevel(logging.INFO)
