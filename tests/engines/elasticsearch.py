"""A real Elasticsearch for tests: 8.19.21 on a loopback port, of the server's jars as Maven Central has them.

The jars are fetched by `mvn` on first use and kept. They hold the server and its HTTP transport; what Elastic publishes
nowhere as a jar is missing: painless scripts, `_delete_by_query` and `GET /`. Data is written through to the disk.
"""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import signal
import subprocess
import tempfile
import threading
import zipfile
from pathlib import Path

from tests.engines.programs import CACHE, ENVIRONMENT, Pausing, Unavailable, signal_group

VERSION = "8.19.21"
NODE = Path(__file__).parent / "ElasticsearchNode.java"
HTTP = "transport-netty4"
DESCRIPTOR = "plugin-descriptor.properties"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
PROJECT = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tests</groupId><artifactId>elasticsearch</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.elasticsearch</groupId><artifactId>elasticsearch</artifactId><version>{VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.elasticsearch.plugin</groupId><artifactId>{HTTP}</artifactId><version>{VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""
FETCHING = 150
"""Seconds in which `mvn` must have fetched the jars."""
STARTING = 100
"""Seconds in which a server must answer."""
STOPPING = 30


def home() -> Path:
    """The folder of the server's jars, which are fetched if they are not there."""
    for program in ("java", "javac", "mvn"):  # java runs NODE from its source, for which it needs a JDK
        if shutil.which(program) is None:
            raise Unavailable(f"Elasticsearch needs {program}, which is not installed")
    folder = CACHE / f"elasticsearch-{VERSION}"
    try:
        CACHE.mkdir(parents=True, exist_ok=True)
        with (CACHE / f"{folder.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # parallel test processes fetch once
            if not folder.exists():
                _fetch(folder)
    except OSError as error:
        raise Unavailable(f"no place for Elasticsearch's jars: {error}") from error
    return folder


def _fetch(folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=CACHE) as name:
        part = Path(name) / "home"
        server, http = part / "lib", part / "modules" / HTTP
        project = Path(name) / "pom.xml"
        project.write_text(PROJECT)
        command = ["mvn", "-B", "-q", "-f", str(project), COPY, f"-DoutputDirectory={server}"]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=FETCHING, env=ENVIRONMENT
            )
        except subprocess.TimeoutExpired as error:
            raise Unavailable(f"Elasticsearch's jars did not come within {FETCHING} seconds") from error
        if done.returncode != 0:
            raise Unavailable(f"Elasticsearch's jars could not be fetched: {done.stdout.strip()[-500:]}")
        http.mkdir(parents=True)
        for pattern in (f"{HTTP}-*", "netty-*"):
            for jar in server.glob(pattern):
                jar.rename(http / jar.name)
        with zipfile.ZipFile(http / f"{HTTP}-{VERSION}.jar") as archive:
            told = archive.read(f"META-INF/es-plugins/{HTTP}/{DESCRIPTOR}").decode()
        # Elastic's own start-up runs the server as Java modules; on a class path its plugins are none either.
        lines = [line for line in told.splitlines() if not line.startswith("modulename=")]
        (http / DESCRIPTOR).write_text("\n".join(lines) + "\n")
        (part / "config").mkdir()
        part.rename(folder)


class Server(Pausing):
    """One Elasticsearch node with its data in a folder; it ends with this process at the latest."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self._home = home()
        self._process = None

    @property
    def url(self) -> str:
        """The node's address."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start and wait until it answers; a server that ran before gets its port again."""
        scratch = self.folder / "tmp"
        scratch.mkdir(parents=True, exist_ok=True)
        # One client compiler and one collector thread: a test's server is short-lived and has no core of its own.
        options = ["-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Djava.io.tmpdir={scratch}"]
        node = [str(NODE), str(self._home), str(self.folder / "data"), str(self.port)]
        log = self.folder / "log"
        with log.open("ab") as errors:
            self._process = process = subprocess.Popen(
                ["java", *options, "-cp", f"{self._home / 'lib'}/*", *node],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=ENVIRONMENT,
                start_new_session=True,
            )
        self.port = self._listening(process) or self._gave_up(log)

    def _listening(self, process: subprocess.Popen[str]) -> int:
        """The port that the node tells, or 0 if it ends or takes too long."""
        assert process.stdout is not None
        watch = threading.Timer(STARTING, signal_group, (process, signal.SIGKILL))
        watch.start()
        try:
            for line in process.stdout:
                if line.startswith("listening "):
                    return int(line.split()[1])
            return 0
        finally:
            watch.cancel()

    def _gave_up(self, log: Path) -> int:
        self.kill()
        raise Unavailable(f"Elasticsearch did not start: {log.read_text(errors='replace')[-500:]}")

    def stop(self) -> None:
        """Stop it; does nothing if it does not run."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOPPING)
        self.kill()

    def kill(self) -> None:
        """End it at once, as a crash would."""
        process, self._process = self._process, None
        if process is None:
            return
        signal_group(process, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
