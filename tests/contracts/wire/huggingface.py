"""How the contract suite reaches Hugging Face's embedder: over HTTP, at a local server that speaks TEI's wire."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.backends.wire.huggingface import MODEL, HuggingFaceWire


@pytest.fixture(scope="module")
def huggingface_embedder_config() -> Iterator[dict[str, Any]]:
    with HuggingFaceWire() as wire:
        yield {"base_url": wire.address, "model": MODEL}
