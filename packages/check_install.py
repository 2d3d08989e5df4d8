"""Install perdure from a folder of wheels into an empty environment, and run it without a network.

    python packages/check_install.py FOLDER

FOLDER holds the wheels of packages/build.py; what they need is fetched beside them by `pip download`. From then on no
package index is asked: `pip install --no-index --find-links FOLDER perdure`, and then the demo, the MCP server and the
HTTP server, in a network namespace without any way out where the system allows one. Prints and checks the size.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

MOST_MEGABYTES, MOST_PACKAGES = 310, 45
"""Of the environment without pip and setuptools. The bounds are what it takes today, so that nothing is added unseen;
docs/adr/0041 says what each part takes."""

SERVE = """
import os, subprocess, sys, time, urllib.request
subprocess.run("ip link set lo up", shell=True, stderr=subprocess.DEVNULL)
server = subprocess.Popen([sys.argv[1], "--path", sys.argv[2], "serve", "--port", "8123"])
try:
    for _ in range(300):
        try:
            with urllib.request.urlopen("http://127.0.0.1:8123/readyz", timeout=2) as answer:
                print("serve", answer.status)
                break
        except OSError:
            time.sleep(0.2)
    else:
        sys.exit("the server does not answer")
finally:
    server.terminate()
sys.exit(server.wait(30))
"""


def run(command: list[str], alone: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command, in the network namespace if there is one; SystemExit with its output if it fails."""
    done = subprocess.run([*alone, *command], capture_output=True, text=True, check=False, timeout=300, **options)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command[:6])} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done


def namespace() -> list[str]:
    """Return the command that runs another one without a network, or nothing where that is not allowed."""
    command = ["unshare", "--net", "--map-root-user"]
    if shutil.which("unshare") and subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0:
        return command
    return []


def megabytes(folder: Path) -> float:
    """Return what the files of a folder take, as `du` counts, without pip and setuptools."""
    found = subprocess.run(["du", "-sk", str(folder)], capture_output=True, text=True, check=True).stdout
    tools = [part for name in ("pip", "setuptools", "pkg_resources", "wheel") for part in folder.glob(f"{name}*")]
    tools = [part for part in tools if part.is_dir()]
    listed = subprocess.run(["du", "-sk", *map(str, tools)], capture_output=True, text=True, check=True).stdout
    sizes = [int(line.split()[0]) for line in listed.splitlines()] if tools else []
    return (int(found.split()[0]) - sum(sizes)) / 1024


def ask_mcp(perdure: str, environment: dict[str, str], alone: list[str]) -> list[str]:
    """Start `perdure mcp`, list its tools, remember and recall a fact; return the tools' names."""
    requests = [
        {"method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "check", "version": "1"}}},
        {"method": "tools/list", "params": {}},
        {"method": "tools/call", "params": {"name": "remember", "arguments": {"facts": ["User keeps bees"]}}},
        {"method": "tools/call", "params": {"name": "recall", "arguments": {"query": "which animals?"}}},
    ]  # fmt: skip
    server = subprocess.Popen(
        [*alone, perdure, "mcp", "--user-id", "ana"],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert server.stdin is not None and server.stdout is not None
    answers: list[dict[str, Any]] = []
    try:
        for number, request in enumerate(requests):
            server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, **request}) + "\n")
            if number == 0:
                server.stdin.write(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}) + "\n")
            server.stdin.flush()
            while True:
                answer = json.loads(server.stdout.readline())
                if answer.get("id") == number:
                    answers.append(answer)
                    break
    finally:
        server.stdin.close()
        server.wait(60)
    recalled = json.dumps(answers[3])
    if "bees" not in recalled:
        raise SystemExit(f"perdure mcp does not recall what it was told: {answers[2:]}")
    return [tool["name"] for tool in answers[1]["result"]["tools"]]


def main() -> int:
    """Check the wheels in the folder; 1 if the environment is larger than it was."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder.resolve()
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        index = home / "index"
        index.mkdir()
        for wheel in folder.glob("perdure*.whl"):
            (index / wheel.name).symlink_to(wheel)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
        run([*pip, "download", "--quiet", "--only-binary", ":all:", "--find-links", str(index),
             "--dest", str(index), "perdure"], [])  # fmt: skip
        alone = namespace()
        print(f"network: {'none (a namespace of its own)' if alone else 'NOT cut off: no namespace is allowed here'}")
        run([sys.executable, "-m", "venv", str(home / "venv")], [])
        environment = {"PATH": os.environ["PATH"], "HOME": str(home / "home"), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        (home / "home").mkdir()
        own = str(home / "venv" / "bin" / "python")
        start = time.monotonic()
        run([own, "-m", "pip", "install", "--quiet", "--no-index", "--find-links", str(index), "perdure"], alone,
            env=environment, cwd=home)  # fmt: skip
        print(f"pip install --no-index --find-links DIR perdure: {time.monotonic() - start:.0f} s")
        (packages,) = (home / "venv" / "lib").glob("python*/site-packages")
        size, count = megabytes(packages), len([*packages.glob("*.dist-info")])
        count -= len([*packages.glob("pip-*.dist-info"), *packages.glob("setuptools-*.dist-info")])
        print(f"installed: {size:.0f} MB, {count} packages")
        perdure = str(home / "venv" / "bin" / "perdure")
        print(run([perdure, "demo"], alone, env=environment, cwd=home).stdout.strip().splitlines()[-3])
        print("mcp", *ask_mcp(perdure, {**environment, "PERDURE_PATH": str(home / "mcp")}, alone))
        print(run([own, "-c", SERVE, perdure, str(home / "served")], alone, env=environment, cwd=home).stdout.strip())
    if size > MOST_MEGABYTES or count > MOST_PACKAGES:
        print(f"more than {MOST_MEGABYTES} MB or {MOST_PACKAGES} packages", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
