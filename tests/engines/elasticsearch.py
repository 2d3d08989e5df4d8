"""A real Elasticsearch for tests: 8.19.21 on a loopback port, of the server's jars as Maven Central has them.

They hold the server and its HTTP transport; what Elastic publishes nowhere as a jar is missing: painless scripts,
`_delete_by_query` and `GET /`. Data is written through to the disk.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

from tests.engines.java import Jars, JavaServer

VERSION = "8.19.21"
HTTP = "transport-netty4"
DESCRIPTOR = "plugin-descriptor.properties"
JARS = Jars("Elasticsearch", VERSION, ("org.elasticsearch:elasticsearch", f"org.elasticsearch.plugin:{HTTP}"))


def home() -> Path:
    """The folder that the server takes for its installation, whose jars are fetched if they are not there."""
    return JARS.home(_arrange)


def _arrange(folder: Path) -> None:
    """Make the jars an installation: the HTTP transport is a module of its own, and there is a place for settings."""
    server, http = folder / "lib", folder / "modules" / HTTP
    http.mkdir(parents=True)
    for pattern in (f"{HTTP}-*", "netty-*"):
        for jar in server.glob(pattern):
            jar.rename(http / jar.name)
    with zipfile.ZipFile(http / f"{HTTP}-{VERSION}.jar") as archive:
        told = archive.read(f"META-INF/es-plugins/{HTTP}/{DESCRIPTOR}").decode()
    # Elastic's own start-up runs the server as Java modules; on a class path its plugins are none either.
    lines = [line for line in told.splitlines() if not line.startswith("modulename=")]
    (http / DESCRIPTOR).write_text("\n".join(lines) + "\n")
    (folder / "config").mkdir()


class Server(JavaServer):
    """One Elasticsearch node."""

    name = "Elasticsearch"
    scheme = "http"
    node = "ElasticsearchNode.java"
    heap = "256m"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, home())

    def arguments(self) -> Sequence[str]:
        """Its installation, its data and its port."""
        return str(self._home), str(self.folder / "data"), str(self.port)
