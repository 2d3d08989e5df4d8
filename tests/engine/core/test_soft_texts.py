"""What is given up is told to whoever called with the text that it was about, and to the log without it."""

from __future__ import annotations

import logging

import pytest

from perdure.domain.errors import EmbeddingError
from perdure.engine.aio.calls import degrade


def test_a_memorys_text_is_told_to_the_caller_and_to_no_log(caplog: pytest.LogCaptureFixture) -> None:
    warnings: list[str] = []
    with caplog.at_level(logging.DEBUG), degrade("not stored", warnings, text="User lives in Porto"):
        raise EmbeddingError("it is not at home", code="server")
    assert warnings == ["not stored: 'User lives in Porto': it is not at home"]
    assert caplog.messages == ["not stored: it is not at home"]
