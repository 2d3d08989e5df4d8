"""The command init, which sets up a memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure.domain.errors import PerdureError
from perdure.frontends.cli.open_memory import CONFIG_FILE, read_settings
from perdure.frontends.cli.options import JsonOption, PathOption, folder
from perdure.frontends.cli.output import advance, note, print_json, progress

if TYPE_CHECKING:
    from perdure.backends.embedders.base import Embedder
    from perdure.engine.config.config import MemoryConfig


def init(
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            metavar="NAME",
            show_default=False,
            help="Vector store: sqlite (default), markdown for memories in files, or another.",
        ),
    ] = None,
    download: Annotated[
        bool,
        typer.Option(
            "--download", help="Download the weights of the embedder (90 MB) and the reranker; no other command does."
        ),
    ] = False,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Write perdure.toml into the memory's folder, with every setting, its meaning and its default.

    The file is optional: without it the defaults apply. It is not overwritten without --force. --download fetches the
    weights of the embedder; without them search matches words only.

    Example: perdure init --path ~/notes/memory --download

    Example: perdure init --path ~/notes/memory --store markdown
    """
    # Heavy: pydantic and the backends; `perdure --help` must not wait for them.
    from perdure.frontends.cli.settings_file import settings_text

    place = folder(path).expanduser()
    file = place / CONFIG_FILE
    exists = file.is_file()
    if exists and not force and not download:
        raise PerdureError(f"{file} exists already: --force overwrites it")
    if force or not exists:
        text = settings_text(place, store or _standing(place))
        try:
            place.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        except OSError as error:
            raise PerdureError(f"{file} cannot be written: {error}") from error
        note(f"wrote {file}")
    config = read_settings(place)
    if download:
        _fetch("embedders", config.embedder.provider, config.embedder.config)
        if config.reranker is not None:
            _fetch("rerankers", config.reranker.provider, config.reranker.config)
    missing = _embedder(config).unavailable()
    if missing is None:
        note(f"the embedder {config.embedder.provider} is ready")
    else:
        note(f"memories will be found by their words alone: {missing}")
    if as_json:
        print_json({"path": str(place), "file": str(file), "embedder": config.embedder.provider, "missing": missing})


def _standing(place: Path) -> str:
    """Return the store that is already in the folder, else the default."""
    from perdure.engine.config.config import VectorStoreConfig, in_files  # heavy, see above

    return "markdown" if in_files(place) else VectorStoreConfig().provider


def _embedder(config: MemoryConfig) -> Embedder:
    from perdure.backends import registry  # heavy, see above

    embedder: Embedder = registry.build("embedders", config.embedder.provider, config.embedder.config)
    return embedder


def _fetch(family: str, provider: str, settings: Mapping[str, Any]) -> None:
    """Download the weights of a provider to the place where its settings expect them."""
    from perdure.backends import registry  # heavy, see above

    fetch = getattr(registry.load(family, provider), "download", None)
    if fetch is None:
        note(f"{provider} has nothing to download")
        return
    named: dict[str, Any] = {"model": settings["model"]} if "model" in settings else {}
    if settings.get("cache_dir"):
        named["cache_dir"] = Path(settings["cache_dir"]).expanduser()
    given = settings.get("path")
    with progress("download", 100) as bar:
        place = fetch(
            Path(given).expanduser() if given else None,
            lambda name, done, size: advance(bar, 100 * done / size if size else 100),
            **named,
        )
    note(f"the weights of {provider} are in {place}")
