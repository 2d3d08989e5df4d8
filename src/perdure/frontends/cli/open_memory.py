"""Open the memory of a folder; `PATH/perdure.toml` is read if it exists.

The imports inside functions load pydantic, NumPy and the backends, which `perdure --help` must not wait for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from perdure.domain.errors import NotFoundError

if TYPE_CHECKING:
    from perdure.engine.config.config import MemoryConfig
    from perdure.engine.engine import Engine
    from perdure.frontends.library.memory import AsyncMemory

T = TypeVar("T")
CONFIG_FILE = "perdure.toml"  # the settings file in the memory's folder, which `init` writes and every command reads


def read_settings(folder: Path, file: Path | None = None) -> MemoryConfig:
    """Return the configuration of a folder, or of another file; without a file the folder's content decides."""
    from perdure.engine.config.config import read_file, read_folder, read_tables  # heavy, see above

    own = folder.expanduser() / CONFIG_FILE
    if file is None and not own.is_file():
        return read_folder(folder)
    file = own if file is None else file.expanduser()
    config = read_file(file)
    says_path = "path" in read_tables(file)
    return config if says_path else config.model_copy(update={"path": folder})


def read_standing(folder: Path) -> MemoryConfig:
    """The same for an existing memory, so that a mistyped path creates none; NotFoundError without the folder."""
    config = read_settings(folder)
    if config.home is not None and not config.home.exists():
        raise NotFoundError(
            f"there is no memory in {config.home}: `perdure add` makes one, and so does `perdure init`; "
            "--path names another"
        )
    return config


def with_memory(folder: Path, work: Callable[[AsyncMemory], Awaitable[T]], *, makes: bool = False) -> T:
    """Open the memory of a folder, run `work`, and close it; `makes` creates a missing one."""
    import asyncio  # it takes longer than the first answer of `perdure mcp`

    from perdure.frontends.library.memory import AsyncMemory  # heavy, see above

    async def run() -> T:
        async with AsyncMemory(read_settings(folder) if makes else read_standing(folder)) as memory:
            return await work(memory)

    return asyncio.run(run())


def with_engine(
    folder: Path, work: Callable[[Engine], Awaitable[T]], *, makes: bool = False, any_embedder: bool = False
) -> T:
    """The same for commands that need the engine: export, import, doctor and reindex."""
    import asyncio

    from perdure.engine.build import build  # heavy, see above

    async def run() -> T:
        engine = build(read_settings(folder) if makes else read_standing(folder), any_embedder=any_embedder)
        try:
            return await work(engine)
        finally:
            await engine.close()

    return asyncio.run(run())


def need_server() -> None:
    """Raise DependencyError with the pip line if a package of the extra `server` is missing."""
    try:
        for name in (
            "fastapi",
            "uvicorn",
            "jwt",
            "cryptography",
            "opentelemetry.trace",
            "httpcore2",
        ):
            import_module(name)
    except ImportError as error:
        from perdure.backends.registry import missing_driver  # heavy, see above

        raise missing_driver("server", error) from error
