"""Pages of a list as mem0 numbers them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request

from perdure.frontends.server.mem0.calls import PAGE_SIZE, Listed
from perdure.frontends.server.mem0.forms import ListForm
from perdure.frontends.server.mem0.shapes import memory_view, picked


def page_view(request: Request, form: ListForm, listed: Listed) -> dict[str, Any]:
    """One page, how many memories there are, and where the pages beside it are."""
    size = form.page_size or form.top_k or PAGE_SIZE
    page = form.page or 1
    results = [picked(memory_view(item), form.fields) for item in listed.items]
    return numbered(request, results, listed.count, page, size)


def numbered(request: Request, results: Sequence[Any], count: int, page: int, size: int) -> dict[str, Any]:
    """`{"count", "next", "previous", "results"}`."""

    def at(number: int) -> str:
        return str(request.url.include_query_params(page=number, page_size=size))

    return {
        "count": count,
        "next": at(page + 1) if page * size < count else None,
        "previous": at(page - 1) if page > 1 else None,
        "results": list(results),
    }
