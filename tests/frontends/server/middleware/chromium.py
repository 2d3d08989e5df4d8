"""A real browser, and the web pages of somebody else's that it opens: what they get out of a server on this machine.

Debian's `chromium` (or Google's Chrome) is run as it is, headless, in a profile of its own. Nothing drives it: a page
asks what it was written to ask, and sends what came of it to the site that it is from. Names other than this machine's
lead here by `--host-resolver-rules`, as they do for a page that has rebound its own.
"""

from __future__ import annotations

import json
import queue
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SECONDS = 120
"""For which a page may take; a busy machine starts a browser slowly."""
PAGE = """<!doctype html><meta charset="utf-8"><title>a page of somebody else's</title><script>
const told = {};
const asked = async (name, work) => {
  try { told[name] = await work(); } catch (error) { told[name] = String(error.name); }
};
const ask = async (url, init) => {
  const answer = await fetch(url, init);
  return [answer.type, answer.status, await answer.text()];
};
(async () => {
%s
  await fetch("%s", {method: "POST", mode: "no-cors", body: JSON.stringify(told)});
})();
</script>"""


def program() -> str:
    """The browser; the test is skipped by name where there is none."""
    found = next((path for path in map(shutil.which, PROGRAMS) if path), None)
    if found is None:
        pytest.skip("no chromium on this machine (Debian: apt-get install chromium)")
    return found


@dataclass(frozen=True)
class Site:
    """Somebody's web site on this machine, under every name that ends in `.example`."""

    port: int
    pages: dict[str, str]
    shown: queue.Queue[str]
    """The pages that were asked for."""
    told: queue.Queue[dict[str, Any]]
    """What pages sent here."""
    close: Callable[[], None]

    def address(self, host: str) -> str:
        return f"http://{host}:{self.port}"


@contextmanager
def site() -> Iterator[Site]:
    """A site on a free port; closed at the end where it is not before."""
    shown: queue.Queue[str] = queue.Queue()
    told: queue.Queue[dict[str, Any]] = queue.Queue()
    pages: dict[str, str] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = pages.get(self.path)
            self.send_response(200 if page else 404)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write((page or "").encode())
            if page:
                shown.put(self.path)

        def do_POST(self) -> None:
            told.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()

    def close() -> None:
        if thread.is_alive():
            server.shutdown()
            thread.join()
            server.server_close()

    try:
        yield Site(server.server_port, pages, shown, told, close)
    finally:
        close()


def page(asks: Mapping[str, str], *, report: str) -> str:
    """A page that asks all of that, each a JavaScript expression, and sends what came of each to an address.

    A fetch comes back as [type, status, text], one that the browser or the server kept from the page as an error's
    name.
    """
    lines = [f"  await asked({json.dumps(name)}, async () => {expression});" for name, expression in asks.items()]
    return PAGE % ("\n".join(lines), report)


def visit(folder: Path, site: Site, asks: Mapping[str, str], *, host: str) -> dict[str, Any]:
    """Open such a page of that host; what came of each."""
    site.pages["/"] = page(asks, report=f"{site.address(host)}/told")
    with opened(folder, f"{site.address(host)}/"):
        return site.told.get(timeout=SECONDS)


@contextmanager
def opened(folder: Path, url: str) -> Iterator[None]:
    """A browser with a profile in a folder that has opened an address."""
    command = [
        program(),
        "--headless=new",
        "--no-sandbox",  # a container has none to give, and the pages are ours
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--no-proxy-server",
        "--disable-background-networking",
        # Whether a page may reach this machine at all is asked of a person where a browser asks it, who says yes.
        "--disable-features=LocalNetworkAccessChecks",
        f"--user-data-dir={folder}",
        "--host-resolver-rules=MAP *.example 127.0.0.1",
        "--remote-debugging-port=0",
        url,
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)
