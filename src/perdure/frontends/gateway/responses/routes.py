"""POST /v1/responses, and the routes of earlier responses."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response
from starlette.types import Send

from perdure.domain.errors import InvalidInputError, NotFoundError
from perdure.domain.scope import Scope
from perdure.frontends.gateway import request_context
from perdure.frontends.gateway.openapi import GIVEN, ITEMS, LET_GO, RESPONSE
from perdure.frontends.gateway.overrides import Overrides
from perdure.frontends.gateway.pass_through import pass_on
from perdure.frontends.gateway.request_context import (
    RequestContext,
    caller_of,
    gateway_of,
    headers_up,
    is_foreign,
    read_request_context,
)
from perdure.frontends.gateway.responses.chains import LONGEST_ID, Chains, Kept
from perdure.frontends.gateway.responses.items import listed
from perdure.frontends.gateway.responses.native import PATH, Native, ResponsesSupport
from perdure.frontends.gateway.responses.request import reach, read_responses_request
from perdure.frontends.gateway.responses.translated import Translated
from perdure.frontends.gateway.streaming import Relay

router = APIRouter(tags=["gateway"])


class _ResponsesState:
    """Shared by the requests of one gateway: its chains, and what the model's server supports."""

    def __init__(self, request: Request) -> None:
        gateway = gateway_of(request)
        self.chains = Chains(gateway)
        self.support = ResponsesSupport(gateway.settings.upstream)


def _state(request: Request) -> _ResponsesState:
    app = request.app.state
    if not hasattr(app, "responses"):
        app.responses = _ResponsesState(request)
    found: _ResponsesState = app.responses
    return found


@router.post(PATH, summary="A response of a model that remembers", openapi_extra=RESPONSE, response_class=Response)
async def create_response(request: Request) -> Response:
    """Handle OpenAI's responses with memory; translated into chat if the model's server has only that."""
    context = await read_request_context(request)
    _check(context.body)
    return Relay(lambda send: _create(context, _state(request), send))


async def _create(context: RequestContext, state: _ResponsesState, send: Send) -> None:
    is_native = await state.support.is_native(context.gateway.upstream, context.headers())
    context = replace(context, began=time.monotonic())  # time for the model's server is not part of memory's time
    asked = await read_responses_request(context, state.chains, needs_chain=not is_native)
    await (Native if is_native else Translated)(asked, state.chains).serve(send)


def _check(body: dict[str, Any]) -> None:
    """Raise InvalidInputError for a wrong type of a field that is read here; the model's server checks the rest."""
    for name, kind in (("previous_response_id", str), ("stream", bool), ("store", bool)):
        if body.get(name) is not None and not isinstance(body[name], kind):
            wanted = "text" if kind is str else "true or false"
            raise InvalidInputError(f"{name} must be {wanted}", field=name, value=body[name])


ResponseId = Annotated[str, Path(max_length=LONGEST_ID, examples=["resp_5a537f9c24e8a1d24f0c9a3be1d05c7e"])]


@router.get(
    PATH + "/{response_id}", summary="A response that was given before", openapi_extra=GIVEN, response_class=Response
)
async def get_response(request: Request, response_id: ResponseId) -> Response:
    """Return the response object as it was sent; 404 also if it belongs to another user."""
    if await _is_native(request):
        return await _passed_on(request, response_id)
    found = (await _found(request, response_id)).response
    assert found is not None, "_found gives none without one"
    return _json(found)


@router.delete(PATH + "/{response_id}", summary="Let go of a response", openapi_extra=LET_GO, response_class=Response)
async def delete_response(request: Request, response_id: ResponseId) -> Response:
    """Delete a response, so that none can continue it; learned facts stay until they are forgotten themselves."""
    state, walls = _state(request), _walls(request)
    if await _is_native(request):
        passed = await _passed_on(request, response_id)
        if walls is not None:
            await state.chains.delete(response_id, walls)
        return passed
    await _found(request, response_id)
    assert walls is not None, "_found gives nobody anything"
    await state.chains.delete(response_id, walls)
    return _json({"id": response_id, "object": "response", "deleted": True})


@router.get(
    PATH + "/{response_id}/input_items",
    summary="What a response answered",
    openapi_extra=ITEMS,
    response_class=Response,
)
async def list_input_items(
    request: Request,
    response_id: ResponseId,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    order: Literal["asc", "desc"] = "desc",
    after: str | None = None,
) -> Response:
    """List the items of the request itself, without those of earlier responses and without memory."""
    if await _is_native(request):
        return await _passed_on(request, response_id)
    items = [listed(item) for item in (await _found(request, response_id)).inputs]
    if order == "desc":
        items.reverse()
    if after is not None:
        at = next((at for at, item in enumerate(items) if item["id"] == after), None)
        if at is None:
            raise InvalidInputError("after must be the id of one of the items", field="after", value=after)
        items = items[at + 1 :]
    shown = items[:limit]
    ends = {"first_id": shown[0]["id"], "last_id": shown[-1]["id"]} if shown else {"first_id": None, "last_id": None}
    return _json({"object": "list", "data": shown, **ends, "has_more": len(items) > limit})


@router.api_route(PATH + "/{response_id}/{rest:path}", methods=["GET", "POST", "DELETE"], include_in_schema=False)
async def pass_below(request: Request, response_id: ResponseId) -> Response:
    """Forward other paths below a response (its cancellation) to the model's server."""
    return await _passed_on(request, response_id)


def _json(value: dict[str, Any]) -> Response:
    # Escaped, because the input may contain lone surrogates, which JSON can write and UTF-8 cannot.
    return Response(json.dumps(value, separators=(",", ":")), media_type="application/json")


async def _is_native(request: Request) -> bool:
    gateway = gateway_of(request)
    caller_of(request)
    return await _state(request).support.is_native(gateway.upstream, headers_up(request, gateway, identity=True))


async def _passed_on(request: Request, response_id: str) -> Response:
    """Return the model server's answer about a response; NotFoundError if it belongs to another caller."""
    seconds = gateway_of(request).settings.recall_seconds
    if not is_foreign(request) and await _state(request).chains.is_anothers(response_id, _walls(request), seconds):
        raise NotFoundError(f"Response with id '{response_id}' not found.")
    return await pass_on(request)


async def _found(request: Request, response_id: str) -> Kept:
    """Return a response stored here; NotFoundError if the caller can see none."""
    walls = _walls(request)
    kept = await _state(request).chains.get(response_id, walls) if walls is not None else None
    if kept is None or kept.response is None:
        raise NotFoundError(f"Response with id '{response_id}' not found.")
    return kept


def _walls(request: Request) -> Scope | None:
    """Return the scope in which the caller may look up responses; None without a user."""
    if is_foreign(request):
        return None
    gateway, caller = gateway_of(request), caller_of(request)
    found = request_context.conversation(
        caller=caller,
        headers=request.headers,
        body={},
        overrides=Overrides(),
        trust_client_user_id=gateway.trust_client_user_id,
        dialect="responses",
        first="",
    )
    return reach(found, caller, gateway) if found is not None else None
