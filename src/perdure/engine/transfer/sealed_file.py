"""Sealed files: lines of JSON, compressed with gzip, whose last line has their count and checksum.

A file gets its name when it is complete and on disk. Partial files of dead processes are recognised by their names,
which contain the machine and the process id.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import platform
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from perdure.domain.errors import InvalidInputError, PerdureError

try:
    import fcntl
except ImportError:  # without file locks, two processes may rewrite one file at once
    fcntl = None  # type: ignore[assignment]

SUFFIX = ".jsonl.gz"
_PART = f".perdure-part.{hashlib.sha256(platform.node().encode()).hexdigest()[:8]}."
"""Prefix of partial files of this machine."""
_LONGEST_HEAD = 65_536
_SEAL = '{"record":"seal",'
_VECTOR = '"vector_f32":'
"""What only a backup has: an export has no vectors, and no seal."""


class SealedWriter:
    """Writes lines to a partial file; `close` seals it and renames it, `drop` removes it."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._part = place.with_name(f"{_PART}{os.getpid()}.{place.name}")
        self._digest = hashlib.sha256()
        self.lines = 0
        place.parent.mkdir(parents=True, exist_ok=True)
        self._raw: IO[bytes] = os.fdopen(os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")
        self._packed = gzip.GzipFile(fileobj=self._raw, mode="wb", compresslevel=6, mtime=0, filename="")

    def __call__(self, line: str) -> None:
        """Write one line, with its newline."""
        data = line.encode()
        self._digest.update(data)
        self._packed.write(data)
        self.lines += 1

    def close(self) -> str:
        """Seal the file and move it to its place; return its checksum."""
        checksum = self._digest.hexdigest()
        self._packed.write(f'{_SEAL}"lines":{self.lines},"sha256":"{checksum}"}}\n'.encode())
        self._packed.close()
        self._raw.flush()
        os.fsync(self._raw.fileno())
        self._raw.close()
        self._part.replace(self._place)
        with suppress(OSError):  # not every file system can sync a folder
            number = os.open(self._place.parent, os.O_RDONLY)
            try:
                os.fsync(number)
            finally:
                os.close(number)
        return checksum

    def drop(self) -> None:
        """Remove an incomplete file."""
        with suppress(OSError):
            self._raw.close()
        self._part.unlink(missing_ok=True)


def read_sealed(place: Path) -> Iterator[str]:
    """Yield the lines of a file without the seal; InvalidInputError if it is truncated, damaged or foreign."""
    digest, count, seal, has_vectors = hashlib.sha256(), 0, "", False
    for line in _lines(place):
        if seal:
            raise _damaged(place, "something follows its last line")
        if line.startswith(_SEAL):
            seal = line
            continue
        if count == 0:
            _check_head(place, line)
        digest.update(line.encode())
        count += 1
        has_vectors = has_vectors or _VECTOR in line
        yield line
    if count == 0 and not seal:
        raise _foreign(place)
    if not seal.endswith("\n"):
        raise _damaged(place, "it is cut off") if has_vectors else _exported(place)
    told = json.loads(seal)
    if told.get("lines") != count or told.get("sha256") != digest.hexdigest():
        raise _damaged(place, "its checksum is another")


def begins_sealed(place: Path) -> bool:
    """Whether a file begins as the writer begins one; the rest is not checked."""
    try:
        with gzip.open(place) as stream:
            _check_head(place, stream.readline(_LONGEST_HEAD).decode())
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, InvalidInputError):
        return False
    return True


def check_sealed(place: Path, look: Callable[[int, str], None] | None = None) -> tuple[dict[str, Any], str]:
    """Return a complete file's header and checksum, calling `look(line, number)`; else InvalidInputError."""
    header: dict[str, Any] | None = None
    digest = hashlib.sha256()
    for number, line in enumerate(read_sealed(place), 1):
        digest.update(line.encode())
        if header is None:
            header = json.loads(line)
        if look is not None:
            look(number, line)
    assert header is not None, "a sealed file has a first line"
    return header, digest.hexdigest()


def _lines(place: Path) -> Iterator[str]:
    try:
        with place.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            stream: Any = gzip.GzipFile(fileobj=raw, mode="rb") if packed else raw
            for line in stream:
                yield line.decode()
    except FileNotFoundError as error:
        raise InvalidInputError(f"there is no file {place.name}", field="file", value=str(place)) from error
    except EOFError as error:
        raise _damaged(place, "it is cut off") from error
    except (zlib.error, gzip.BadGzipFile) as error:
        raise _damaged(place, "its bytes are not what was written") from error
    except UnicodeDecodeError as error:
        raise _foreign(place) from error
    except OSError as error:
        raise PerdureError(f"{place.name or place} cannot be read: {error.strerror or type(error).__name__}") from error


def _check_head(place: Path, line: str) -> None:
    try:
        head = json.loads(line)
    except ValueError as error:
        raise _foreign(place) from error
    if not isinstance(head, dict) or "perdure" not in head:
        raise _foreign(place)


def _foreign(place: Path) -> InvalidInputError:
    return InvalidInputError(
        f"{place.name} is no backup of perdure (what `perdure export` or another tool wrote is for `perdure import`)",
        field="file",
        value=str(place),
    )


def _damaged(place: Path, what: str) -> InvalidInputError:
    return InvalidInputError(f"{place.name} is a damaged backup: {what}", field="file", value=str(place))


def _exported(place: Path) -> InvalidInputError:
    return InvalidInputError(
        f"{place.name} is an export and no backup: `perdure import` reads it", field="file", value=str(place)
    )


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Lock out other writers of files in a folder; the lock ends with its process."""
    if fcntl is None:
        yield
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


def clear_left_over(folder: Path) -> int:
    """Delete partial files of dead processes in a folder; return how many."""
    count = 0
    for part in folder.glob(f"{_PART}*"):
        number = part.name.removeprefix(_PART).partition(".")[0]
        if number.isdigit() and not _is_alive(int(number)):
            part.unlink(missing_ok=True)
            count += 1
    return count


def _is_alive(process: int) -> bool:
    if process == os.getpid():
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
