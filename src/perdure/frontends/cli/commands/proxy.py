"""The command proxy, which stands between any OpenAI client and its model and adds memory."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from perdure.domain.errors import ConfigError
from perdure.frontends.cli.commands import serve
from perdure.frontends.cli.commands.serve import HostOption, OpenOption, PortOption
from perdure.frontends.cli.options import JsonOption, PathOption, folder
from perdure.frontends.cli.output import print_json

if TYPE_CHECKING:
    from fastapi import FastAPI

    from perdure.engine.config.config import MemoryConfig

DEFAULT_BASE_URL = "https://api.openai.com/v1"
_LOOPBACK = ("127.0.0.1", "localhost", "::1", "0.0.0.0")  # noqa: S104  # hosts that lead back to this machine
_LEVELS = ("debug", "info", "warning", "error")
logger = logging.getLogger("perdure.server")


def _level(value: str) -> str:
    if value.lower() not in _LEVELS:
        raise typer.BadParameter(f"must be one of {', '.join(_LEVELS)}")
    return value.lower()


BaseUrlOption = Annotated[
    str | None,
    typer.Option(
        "--openai-base-url",
        metavar="URL",
        help=f"The model's server; default the settings, then OPENAI_BASE_URL, then {DEFAULT_BASE_URL}.",
    ),
]
ApiKeyOption = Annotated[
    str | None,
    typer.Option(
        "--openai-api-key",
        metavar="KEY",
        help="API key for requests without one; safer in OPENAI_API_KEY, which other users cannot see.",
    ),
]
TopKOption = Annotated[
    int | None, typer.Option("--default-top-k", min=1, max=100, help="Memories for each request; default 5.")
]
MaxEntriesOption = Annotated[
    int | None,
    typer.Option(
        "--max-entries", min=0, help="Most facts and turns of a conversation; 0 is no limit. Default 0, in files 500."
    ),
]
MmrOption = Annotated[
    float | None,
    typer.Option("--mmr-lambda", min=0, max=1, help="Relevance against variety, 1 is relevance only; default 0.7."),
]
RecencyOption = Annotated[
    float | None, typer.Option("--recency-weight", min=0, max=1, help="Share of recency in the score; default 0.2.")
]
ThresholdOption = Annotated[
    float | None,
    typer.Option("--score-threshold", min=0, max=1, help="Least score of a memory in a chat; default none."),
]
SummarizationOption = Annotated[
    bool | None,
    typer.Option("--summarization/--no-summarization", help="Keep a summary of each conversation; default yes."),
]
LevelOption = Annotated[str, typer.Option("--log-level", callback=_level, help="debug, info, warning or error.")]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Settings instead of the folder's perdure.toml: TOML or YAML."),
]


def proxy(
    *,
    host: HostOption = None,
    port: PortOption = None,
    is_open: OpenOption = False,
    base_url: BaseUrlOption = None,
    api_key: ApiKeyOption = None,
    top_k: TopKOption = None,
    max_entries: MaxEntriesOption = None,
    mmr_lambda: MmrOption = None,
    recency_weight: RecencyOption = None,
    score_threshold: ThresholdOption = None,
    summarization: SummarizationOption = None,
    log_level: LevelOption = "info",
    config_file: ConfigOption = None,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Run a proxy before a model's server that adds memory to every OpenAI client.

    Chats and responses get the relevant memories, and new facts are stored; all other requests pass through unchanged.
    All routes of `perdure serve` are available too. A loopback address needs no key; any other address needs keys or
    --open. After SIGTERM it finishes running requests and stops.

    Example: perdure proxy --openai-base-url http://localhost:11434/v1

    Example: OPENAI_BASE_URL=http://127.0.0.1:8100/v1 openai api chat.completions.create -m qwen3:4b -g user "Hello"
    """
    serve.begin()
    place = folder(path)
    # In one process: what is told here, the key first of all, is told to no other.
    server = {"host": host, "port": port, "workers": 1, "open": is_open or None}
    gateway = {
        "default_retrieval_limit": top_k,
        "max_entries": max_entries,
        "mmr_lambda": mmr_lambda,
        "recency_weight": recency_weight,
        "chat_similarity_threshold": score_threshold,
        "summaries": summarization,
    }
    upstream = given({"base_url": base_url, "api_key": api_key})
    config = _config(serve.serving_config(place, given(server), config_file), given(gateway), upstream)
    stand(config, place, log_level=log_level, as_json=as_json)


def stand(
    config: MemoryConfig, place: Path, *, log_level: str, as_json: bool, made: Callable[[], None] = lambda: None
) -> None:
    """Serve this memory before its model's server until told to stop; `made` is called when it is ready."""
    from perdure.frontends.server import logging as logs  # heavy: FastAPI; `perdure --help` must not wait for it
    from perdure.frontends.server.app import create_app

    settings = serve.checked(config, place)
    listening, url = serve.listen(settings)
    _not_itself(str(config.gateway.upstream.base_url), url)
    logs.to_standard_error()
    for name in ("perdure", "uvicorn"):
        logging.getLogger(name).setLevel(log_level.upper())
    logger.info("listening", extra={"fields": {"url": url}})
    if as_json:
        print_json({"url": url, "openai_base_url": f"{url}/v1", "open": settings.open})
    else:
        typer.echo(f"export OPENAI_BASE_URL={url}/v1")
    typer.get_text_stream("stdout").flush()

    def make() -> FastAPI:
        app = create_app(config)
        made()
        return app

    serve.run(settings, listening, make)


def given(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def _config(config: MemoryConfig, gateway: dict[str, Any], upstream: dict[str, Any]) -> MemoryConfig:
    """Return the configuration to serve, with a model's server in any case; ConfigError names a setting."""
    from pydantic import ValidationError  # heavy, see above

    from perdure.backends.validation import config_error
    from perdure.engine.chat.settings import GatewaySettings

    told = config.gateway.model_dump(exclude_unset=True)
    named = given(told.get("upstream", {}))
    fallback = os.environ.get("OPENAI_BASE_URL", "").strip() or DEFAULT_BASE_URL
    whole = {**told, **gateway, "upstream": {"base_url": fallback, **named, **upstream}}
    try:
        return config.model_copy(update={"gateway": GatewaySettings(**whole)})
    except ValidationError as error:
        raise config_error(error, GatewaySettings, "gateway") from None


def _not_itself(base_url: str, url: str) -> None:
    """Raise ConfigError if the model's server is this server, for example from the clients' environment."""
    there, here = urlsplit(base_url), urlsplit(url)
    if there.port == here.port and there.hostname in (*_LOOPBACK, here.hostname):
        raise ConfigError(
            f"the model's server would be this proxy itself ({url}): --openai-base-url, or OPENAI_BASE_URL in this "
            "shell, must name another",
            field="gateway.upstream.base_url",
            value=url,
        )
