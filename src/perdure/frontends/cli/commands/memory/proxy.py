"""The command memory proxy, whose memory is a folder of Markdown files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure.domain.errors import ConfigError, InvalidInputError
from perdure.frontends.cli.commands import proxy as proxying
from perdure.frontends.cli.commands import serve
from perdure.frontends.cli.commands.memory.add import DEFAULT_FOLDER, GitOption, MemoryPathOption
from perdure.frontends.cli.commands.serve import HostOption, OpenOption, PortOption
from perdure.frontends.cli.open_memory import CONFIG_FILE
from perdure.frontends.cli.options import JsonOption
from perdure.frontends.cli.output import note

if TYPE_CHECKING:
    from perdure.engine.config.config import MemoryConfig

EMBEDDING_MODEL = "text-embedding-3-small"
MAX_ENTRIES = 500  # defaults of this command that differ from perdure's own
ENVIRONMENT = {
    "host": "MEMORY_HOST",
    "port": "MEMORY_PORT",
    "top_k": "MEMORY_TOP_K",
    "max_entries": "MEMORY_MAX_ENTRIES",
    "mmr_lambda": "MEMORY_MMR_LAMBDA",
    "recency_weight": "MEMORY_RECENCY_WEIGHT",
    "score_threshold": "MEMORY_SCORE_THRESHOLD",
    "summarization": "MEMORY_SUMMARIZATION",
    "git": "MEMORY_GIT_VERSIONING",
    "embedding_model": "EMBEDDING_MODEL",
    "embedding_base_url": "EMBEDDING_BASE_URL",
    "base_url": "OPENAI_BASE_URL",
    "api_key": "OPENAI_API_KEY",
    "log_level": "LOG_LEVEL",
}
"""Environment variables for options; the option itself declares MEMORY_PATH."""
WRITTEN = "# Written by `perdure memory proxy` with each start, so that other commands open this memory as it does."
"""First line of the settings file that it writes."""


def _layered(context: typer.Context, file: Path | None) -> Path | None:
    """Apply values of a file and of the environment below the options; the environment overrides the file."""
    told = {name: value for name, key in ENVIRONMENT.items() if (value := os.environ.get(key, "").strip())}
    context.default_map = {**_of_file(context, file), **told}
    return file


def _of_file(context: typer.Context, file: Path | None) -> dict[str, Any]:
    """Return the table [memory.proxy] of a file, by parameter names; ConfigError names an error."""
    if file is None:
        return {}
    from perdure.engine.config.config import read_tables  # heavy: pydantic; `perdure --help` must not wait for it

    try:
        tables = read_tables(file.expanduser())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} cannot be read as settings: {error}", field="config", value=str(file)) from error
    memory = tables.get("memory")
    table = memory.get("proxy") if isinstance(memory, dict) else None
    if not isinstance(table, dict):
        raise ConfigError(f"{file} has no table [memory.proxy]", field="config", value=str(file))
    names = {option.lstrip("-"): each.name for each in context.command.params for option in each.opts}
    found = {}
    for key, value in table.items():
        name = names.get(key.replace("_", "-"))
        if name is None or name in ("config_file", "print_args", "help", "as_json"):
            raise ConfigError(f"[memory.proxy] has no setting {key!r}", field=f"memory.proxy.{key}", value=key)
        found[name] = value
    return found


ServerOption = Annotated[
    str | None,
    typer.Option(
        "--openai-base-url", metavar="URL", help="The model's server; required unless OPENAI_BASE_URL is set."
    ),
]
EmbeddingUrlOption = Annotated[
    str | None,
    typer.Option(
        "--embedding-base-url", metavar="URL", help="The embedding model's server; default the model's server."
    ),
]
EmbeddingOption = Annotated[
    str,
    typer.Option(
        "--embedding-model", metavar="NAME", show_default=False,
        help=f"A model of that server, a folder, or minilm, which runs locally; default {EMBEDDING_MODEL}.",
    ),
]  # fmt: skip
DimensionsOption = Annotated[
    int | None, typer.Option("--embedding-dimensions", min=1, help="Length of its vectors; default: ask the server.")
]
ExtractOption = Annotated[
    bool, typer.Option("--extract-with-upstream", help="Extract facts with the model itself instead of rules.")
]
FileOption = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", is_eager=True, callback=_layered,
        help="A file whose table [memory.proxy] sets options by name.",
    ),
]  # fmt: skip
PrintOption = Annotated[
    bool, typer.Option("--print-args", help="Print all options in force to standard error.", show_default=False)
]


def proxy(
    context: typer.Context,
    *,
    memory_path: MemoryPathOption = DEFAULT_FOLDER,
    base_url: ServerOption = None,
    api_key: proxying.ApiKeyOption = None,
    embedding_base_url: EmbeddingUrlOption = None,
    embedding_model: EmbeddingOption = EMBEDDING_MODEL,
    embedding_dimensions: DimensionsOption = None,
    top_k: proxying.TopKOption = None,
    max_entries: proxying.MaxEntriesOption = None,
    mmr_lambda: proxying.MmrOption = None,
    recency_weight: proxying.RecencyOption = None,
    score_threshold: proxying.ThresholdOption = None,
    summarization: proxying.SummarizationOption = None,
    git: GitOption = None,
    extract_with_upstream: ExtractOption = False,
    host: HostOption = None,
    port: PortOption = None,
    is_open: OpenOption = False,
    log_level: proxying.LevelOption = "info",
    config_file: FileOption = None,
    print_args: PrintOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run a proxy before a model's server with a memory in Markdown files, which you may read, edit and delete.

    Edits in the folder become memory a moment later, and every change is committed to git there. --openai-base-url or
    OPENAI_BASE_URL must name the model's server. Every option may be set in a file (--config), and most in the
    environment: MEMORY_PATH, MEMORY_HOST, MEMORY_PORT, MEMORY_TOP_K, MEMORY_MAX_ENTRIES, MEMORY_MMR_LAMBDA,
    MEMORY_RECENCY_WEIGHT, MEMORY_SCORE_THRESHOLD, MEMORY_SUMMARIZATION, MEMORY_GIT_VERSIONING, EMBEDDING_MODEL,
    EMBEDDING_BASE_URL, OPENAI_BASE_URL, OPENAI_API_KEY, LOG_LEVEL. If the folder has no perdure.toml of yours, the
    command writes one, so that other commands use the same embedder. Otherwise it works like `perdure proxy`.

    Example: perdure memory proxy --memory-path ./my-memories --openai-base-url http://localhost:11434/v1

    Example: perdure memory proxy --openai-base-url http://localhost:11434/v1 --embedding-model minilm
    """
    if base_url is None or not base_url.strip():
        raise InvalidInputError(
            "the model's server must be named: --openai-base-url, or OPENAI_BASE_URL", field="openai_base_url"
        )
    serve.begin()
    # Heavy: pydantic; `perdure --help` must not wait for it.
    from perdure.frontends.cli.vector_length import length_of
    from perdure.frontends.library.memory_client_settings import client_config, embedder_settings

    gateway = {
        "default_retrieval_limit": top_k,
        "max_entries": MAX_ENTRIES if max_entries is None else max_entries,
        "mmr_lambda": mmr_lambda,
        "recency_weight": recency_weight,
        "default_similarity_threshold": score_threshold,
        "summaries": summarization,
        "extract_with_upstream": extract_with_upstream,
    }
    folder, server = memory_path.expanduser(), embedding_base_url or base_url
    dimensions = embedding_dimensions or length_of(folder, embedding_model, server, api_key or None)
    config = client_config(
        memory_path=folder,
        openai_base_url=base_url,
        chat_api_key=api_key or None,
        embedder=embedder_settings(embedding_model, server, api_key or None, dimensions),
        watch=True,  # with the app, which opens the memory when it starts
        git=git is not False,
        gateway=proxying.given(gateway),
    )
    # In one process: its values, above all the key, are passed to no other process.
    served = proxying.given({"host": host, "port": port, "workers": 1, "open": is_open or None})
    config = config.model_copy(update={"server": {**config.server, **served}})
    if print_args:
        _tell(
            context, {"embedding_base_url": server, "embedding_dimensions": dimensions, "git": git is not False}, config
        )
    proxying.stand(config, folder, log_level=log_level, as_json=as_json, made=lambda: _tell_others(folder, config))


def _tell_others(folder: Path, config: MemoryConfig) -> None:
    """Write settings for the other commands, if the folder has none of the user's: never a key."""
    from perdure.frontends.cli.settings_file import toml  # heavy: pydantic; `perdure --help` must not wait for it

    file = folder / CONFIG_FILE
    embedder = {
        name: value for name, value in config.embedder.config.items() if name != "api_key" and value is not None
    }
    store = {"git": config.vector_store.config["git"]}
    lines = [WRITTEN, f"updates = {toml(config.updates)}", f"episodes = {toml(config.episodes)}"]
    for name, provider, told in (
        ("vector_store", config.vector_store.provider, store),
        ("embedder", config.embedder.provider, embedder),
    ):
        lines += ["", f"[{name}]", f"provider = {toml(provider)}", f"[{name}.config]"]
        lines += [f"{key} = {toml(value)}" for key, value in told.items()]
    try:
        if not file.exists() or file.read_text(encoding="utf-8", errors="replace").startswith(WRITTEN):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            file.write_text("\n".join([*lines, ""]), encoding="utf-8")
    except OSError as error:
        note(f"{file} cannot be written, so that other commands need settings of yours: {error.strerror}")


def _tell(context: typer.Context, filled: dict[str, Any], config: MemoryConfig) -> None:
    """Print all options with the values in force; of a key only that there is one."""
    from perdure.frontends.server.settings import read_settings  # heavy: pydantic, see above

    serving, gateway = read_settings(config), config.gateway
    values = {
        **context.params,
        "host": serving.host,
        "port": serving.port,
        "is_open": serving.open,
        "top_k": gateway.default_retrieval_limit,
        "max_entries": gateway.max_entries,
        "mmr_lambda": gateway.mmr_lambda,
        "recency_weight": gateway.recency_weight,
        "score_threshold": gateway.default_similarity_threshold,
        "summarization": gateway.summaries,
        **filled,
    }
    for each in context.command.params:
        if each.name in context.params and each.opts and each.name not in ("print_args", "help"):
            value = values[each.name]
            shown = "***" if value and each.name == "api_key" else "not set" if value is None else value
            note(f"{each.opts[0].lstrip('-')} = {shown}")
