"""A real Neo4j for tests: 5.26.30 on a loopback port over Bolt, with a password, of the server's jars as Maven Central
has them.

They are the community edition, whole but for its HTTP door, which is not opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.engines.java import Jars, JavaServer

USER = "neo4j"
PASSWORD = "pass/word@with:marks"
JARS = Jars("Neo4j", "5.26.30", ("org.neo4j:neo4j",))


def home() -> Path:
    """The folder of the server's jars, which are fetched if they are not there."""
    return JARS.home()


class Server(JavaServer):
    """One Neo4j."""

    name = "Neo4j"
    scheme = "bolt"
    node = "Neo4jNode.java"
    heap = "128m"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, home())

    def arguments(self) -> Sequence[str]:
        """Its data, its port and its password."""
        return str(self.folder / "data"), str(self.port), PASSWORD
