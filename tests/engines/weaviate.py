"""A real Weaviate for tests: 1.39.0 on loopback ports, built by `go` from its module on first use and kept.

The build takes some ten minutes on two cores, and the caches of Go's modules and packages grow by about 4 GB. Two of
the server's ports (gRPC and the cluster's own) listen on every interface, which Weaviate has no setting for; the others
are bound to 127.0.0.1.

    python -m tests.engines.weaviate

builds it beforehand: no test may take as long.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

from tests.engines.programs import CACHE, ENVIRONMENT, Pausing, Unavailable, kept, signal_group

VERSION = "1.39.0"
PROGRAM = "weaviate-server"
PACKAGE = f"github.com/weaviate/weaviate/cmd/{PROGRAM}@v{VERSION}"
BUILDING = 3600
"""Seconds in which `go` must have built the server."""
STARTING = 120
"""Seconds in which a server must answer."""
STOPPING = 30


def binary() -> Path:
    """The path of the server, which is built if it is not there."""
    return kept(CACHE / f"weaviate-{VERSION}" / PROGRAM, _build, "Weaviate's binary")


def _build(program: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise Unavailable("Weaviate needs go to be built, which is not installed")
    with tempfile.TemporaryDirectory(dir=CACHE) as name:
        # Two at a time: a machine that runs tests has other work too. GOFLAGS may hold what no installing takes.
        environment = {**ENVIRONMENT, "GOBIN": name, "GOMAXPROCS": "2", "GOFLAGS": ""}
        command = [go, "install", "-p", "2", "-trimpath", "-ldflags=-s -w", PACKAGE]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
                timeout=BUILDING,
                env=environment,
                cwd=name,  # outside any module
            )
        except subprocess.TimeoutExpired as error:
            raise Unavailable(f"Weaviate was not built within {BUILDING} seconds") from error
        if done.returncode != 0:
            raise Unavailable(f"Weaviate could not be built: {done.stderr.strip()[-500:]}")
        program.parent.mkdir(exist_ok=True)
        (Path(name) / PROGRAM).rename(program)


class Server(Pausing):
    """One Weaviate node with its data in a folder; no modules, and no key unless one is given."""

    def __init__(self, folder: Path, *, api_key: str | None = None) -> None:
        self.folder = folder
        self.port = 0
        self.grpc_port = 0
        self._api_key = api_key
        self._binary = binary()
        self._others: list[int] = []
        self._process = None
        self._watch: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The node's address for HTTP."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def grpc_address(self) -> str:
        """The node's host and port for gRPC."""
        return f"127.0.0.1:{self.grpc_port}"

    def start(self) -> None:
        """Start and wait until it answers; a server that ran before gets its ports again."""
        self.folder.mkdir(parents=True, exist_ok=True)
        log = self.folder / "log"
        fresh = not self.port
        for _ in range(5 if fresh else 1):  # somebody may take a free port before Weaviate does
            if fresh:
                self.port, self.grpc_port, *self._others = _free_ports(6)
            with log.open("wb") as out:
                self._process = subprocess.Popen(
                    [str(self._binary), "--scheme", "http", "--host", "127.0.0.1", "--port", str(self.port)],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    env=self._environment(),
                    start_new_session=True,
                )
            # Ends the server with this process, however that ends: its pipe is closed then.
            watch = ["sh", "-c", 'read -r _; kill -s KILL -- "-$0"', str(self._process.pid)]
            self._watch = subprocess.Popen(watch, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
            if self._answers(self._process):
                return
            self.kill()
            if b"address already in use" not in log.read_bytes():
                break
        if fresh:
            self.port = 0
        raise Unavailable(f"Weaviate did not start: {log.read_text(errors='replace')[-500:]}")

    def _environment(self) -> dict[str, str]:
        gossip, data, raft, raft_rpc = map(str, self._others)
        # Nothing of the developer's own reaches it: a variable of some module or cluster would change what it does.
        kept = {name: ENVIRONMENT[name] for name in ("HOME", "PATH", "TMPDIR") if name in ENVIRONMENT}
        named = {
            "PERSISTENCE_DATA_PATH": str(self.folder / "data"),
            "DISABLE_TELEMETRY": "true",
            "GO_PROFILING_DISABLE": "true",
            "ENABLE_API_BASED_MODULES": "false",
            "DISK_USE_READONLY_PERCENTAGE": "0",  # a full disk elsewhere is not what is tested
            "DISK_USE_WARNING_PERCENTAGE": "0",
            "GRPC_PORT": str(self.grpc_port),
            "CLUSTER_HOSTNAME": "node1",
            "CLUSTER_BIND_ADDR": "127.0.0.1",
            "CLUSTER_ADVERTISE_ADDR": "127.0.0.1",
            "CLUSTER_GOSSIP_BIND_PORT": gossip,
            "CLUSTER_DATA_BIND_PORT": data,
            "RAFT_PORT": raft,
            "RAFT_INTERNAL_RPC_PORT": raft_rpc,
            "RAFT_BOOTSTRAP_EXPECT": "1",
            "RAFT_TIMEOUTS_MULTIPLIER": "1",  # a cluster of one need not wait for slow neighbours
            "GOMAXPROCS": "2",
        }
        if self._api_key is None:
            named["AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED"] = "true"
        else:
            named["AUTHENTICATION_APIKEY_ENABLED"] = "true"
            named["AUTHENTICATION_APIKEY_ALLOWED_KEYS"] = self._api_key
            named["AUTHENTICATION_APIKEY_USERS"] = "tester"
        return {**kept, **named}

    def _answers(self, process: subprocess.Popen[bytes]) -> bool:
        deadline = time.monotonic() + STARTING
        while process.poll() is None and time.monotonic() < deadline:
            try:
                urllib.request.urlopen(f"{self.url}/v1/.well-known/ready", timeout=5).close()
                return process.poll() is None
            except OSError:  # nobody there, or 503 until it is ready
                time.sleep(0.05)
        return False

    def stop(self) -> None:
        """Stop it; does nothing if it does not run."""
        if self._process is not None:
            signal_group(self._process, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOPPING)
        self.kill()

    def kill(self) -> None:
        """End it at once, as a crash would."""
        process, self._process = self._process, None
        if process is None:
            return
        if self._watch is not None:
            self._watch.kill()
            self._watch.communicate()
        signal_group(process, signal.SIGKILL)
        process.wait()


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


if __name__ == "__main__":
    binary()
