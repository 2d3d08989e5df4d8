"""Servers for tests that are a few lines of Java around jars of Maven Central.

`mvn` fetches the jars on first use and they are kept; `java` runs the node from its source. A node prints
"listening PORT" on its standard output when it serves, and ends when its standard input does.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tests.engines.programs import CACHE, ENVIRONMENT, Pausing, Unavailable, kept, signal_group

NODES = Path(__file__).parent
"""Where the nodes' sources lie."""
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
FETCHING = 150
"""Seconds in which `mvn` must have fetched the jars."""
STARTING = 100
"""Seconds in which a server must answer."""
STOPPING = 30


@dataclass(frozen=True)
class Jars:
    """The jars that a server is made of: artifacts as "group:name", all of one version, with what they need."""

    name: str
    version: str
    artifacts: tuple[str, ...]

    def home(self, arranged: Callable[[Path], None] | None = None) -> Path:
        """The folder with the jars in `lib`, which are fetched if they are not there, and then `arranged`."""
        for program in ("java", "javac", "mvn"):  # java runs a node from its source, for which it needs a JDK
            if shutil.which(program) is None:
                raise Unavailable(f"{self.name} needs {program}, which is not installed")

        def fetch(folder: Path) -> None:
            with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
                part = Path(scratch) / "home"
                self._fetch(Path(scratch) / "pom.xml", part / "lib")
                if arranged is not None:
                    arranged(part)
                part.rename(folder)

        return kept(CACHE / f"{self.name.lower()}-{self.version}", fetch, f"{self.name}'s jars")

    def _fetch(self, project: Path, jars: Path) -> None:
        project.write_text(self._project())
        told = ["-B", "-q", "-f", str(project), COPY, f"-DoutputDirectory={jars}", "-DincludeScope=runtime"]
        try:
            done = subprocess.run(
                ["mvn", *told],
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
                timeout=FETCHING,
                env=ENVIRONMENT,
            )
        except subprocess.TimeoutExpired as error:
            raise Unavailable(f"{self.name}'s jars did not come within {FETCHING} seconds") from error
        if done.returncode != 0:
            raise Unavailable(f"{self.name}'s jars could not be fetched: {done.stdout.strip()[-500:]}")

    def _project(self) -> str:
        needed = "".join(
            f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
            f"<version>{self.version}</version></dependency>"
            for group, name in (artifact.split(":") for artifact in self.artifacts)
        )
        return (
            '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
            f"<groupId>tests</groupId><artifactId>{self.name.lower()}</artifactId><version>1</version>"
            f"<packaging>pom</packaging><dependencies>{needed}</dependencies></project>\n"
        )


class JavaServer(Pausing):
    """One node with its data in a folder; it ends with this process at the latest."""

    name: ClassVar[str]
    scheme: ClassVar[str]
    node: ClassVar[str]
    """The source file of the node."""
    heap: ClassVar[str]

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        self.port = 0
        self._home = home
        self._process = None

    @property
    def url(self) -> str:
        """The server's address."""
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def arguments(self) -> Sequence[str]:
        """What the node is told."""
        raise NotImplementedError

    def start(self) -> None:
        """Start and wait until it answers; a server that ran before gets its port and its data again."""
        scratch = self.folder / "tmp"
        scratch.mkdir(parents=True, exist_ok=True)
        # One client compiler and one collector thread: a test's server is short-lived and has no core of its own.
        options = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Djava.io.tmpdir={scratch}"]
        memory = [f"-Xms{self.heap}", "-Xmx512m"]
        log = self.folder / "log"
        with log.open("ab") as errors:
            self._process = process = subprocess.Popen(
                [
                    "java",
                    *memory,
                    *options,
                    "-cp",
                    f"{self._home / 'lib'}/*",
                    str(NODES / self.node),
                    *self.arguments(),
                ],
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
        raise Unavailable(f"{self.name} did not start: {log.read_text(errors='replace')[-500:]}")

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
