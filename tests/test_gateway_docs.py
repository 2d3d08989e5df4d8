"""docs/gateway.md cannot lie: its requests are sent to `perdure proxy` before a scripted model's server."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from json import loads
from pathlib import Path

from tests.frontends.gateway.upstream import upstream
from tests.test_docs import same

PAGE = Path(__file__).parents[1] / "docs" / "gateway.md"
ADDRESS, MODEL = "http://localhost:8100", "http://localhost:11434/v1"
BLOCK = re.compile(r"```(bash|py)\n(.*?)```", re.DOTALL)
WENT_UP = re.compile(
    r"went to the model, in place of the user's message:\n\n```text\n(.*?)^```$", re.DOTALL | re.MULTILINE
)
HEAD = 'curl() { command curl --silent --show-error --fail-with-body "$@"; echo; }\nset -eu -o pipefail\n'
SAID = (
    *("[memory] User is allergic to sesame", "x-memory-status: used", '"memory_hits":[{"role":"memory"'),
    *('"summary_id":"mem_', '"openai_base_url"', "llm_memory_retrieval_total"),
)


def test_the_pages_requests_are_answered(tmp_path: Path) -> None:
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert {language for language, _ in blocks} == {"bash", "py"}
    script = HEAD
    for language, text in blocks:
        script += text if language == "bash" else f"\"{sys.executable}\" - <<'END'\n{text}END\n"
    environment = {**os.environ, "OPENAI_BASE_URL": "", "OPENAI_API_KEY": ""}
    with upstream(responses=False) as model:
        command = [f"{Path(sys.executable).parent}/perdure", "--path", str(tmp_path / "memory"), "proxy"]
        server = subprocess.Popen(
            [*command, "--port", "0", "--json", "--openai-base-url", model.url],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert server.stdout is not None
        with server:
            try:
                told = ""
                for line in server.stdout:
                    told += line
                    if line.startswith("}"):
                        break
                script = script.replace(ADDRESS, loads(told)["url"]).replace(MODEL, model.url)
                done = subprocess.run(
                    ["bash", "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120
                )
            finally:
                server.send_signal(signal.SIGTERM)
            assert server.wait(60) == 0
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    for said in SAID:
        assert said in done.stdout, said
    shown = WENT_UP.search(PAGE.read_text(encoding="utf-8"))
    assert shown is not None
    asked = [f"{message['content']}\n" for seen in model.of("/v1/chat/completions") for message in seen.messages]
    assert any(same(shown[1], each) for each in asked), asked[:3]
