"""Digests that stand for names, ids and paths of an alphabet or a length that an engine does not take."""

from __future__ import annotations

from hashlib import blake2b


def digest(name: str, size: int) -> str:
    """The BLAKE2b digest (RFC 7693) of a name: `size` bytes, 1 to 64, as twice as many hexadecimal digits.

    Every text has one, also a lone surrogate, which UTF-8 by itself refuses. What is stored is found by it, so that it
    must stay as it is.
    """
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=size).hexdigest()
