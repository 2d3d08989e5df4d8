"""MCP over standard input and output: one client, one folder, one scope.

Where `perdure serve` runs on the folder, its engine answers: four clients must not load four models.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO, cast

import anyio
import mcp_types as types
from mcp.server.context import CallNext, HandlerResult
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import encode_header_value
from mcp_types.version import LATEST_MODERN_VERSION
from pydantic import ValidationError

from perdure.domain.errors import InvalidInputError
from perdure.frontends.mcp import SCOPE_HEADER, Serving
from perdure.frontends.mcp.consent import CallerAccess, Consent, RequestContext, asks_by_answer, can_ask
from perdure.frontends.mcp.front import Front
from perdure.frontends.mcp.server import build_server
from perdure.frontends.mcp.subscriptions import Feed, Subscriptions, own_feed
from perdure.frontends.mcp.tool import tools_of

if TYPE_CHECKING:
    from contextvars import Context

    from mcp.shared._stream_protocols import ReadStream, WriteStream
    from mcp.shared.message import SessionMessage

    from perdure.domain.access import Role
    from perdure.domain.scope import Scope
    from perdure.engine.config.config import MemoryConfig
    from perdure.frontends.library.memory import AsyncMemory
    from perdure.frontends.library.team import AsyncTeamMemory

NO_TEAM = "a team's tools need a team and a user: perdure mcp --team NAME --user-id NAME"
READY_AFTER_SECONDS = 0.02
"""Pause between the list of tools and the opening of the memory, in which the list is sent."""


class FolderAccess:
    """Access to one folder's memory inside one scope; it is opened once, at the first call or ahead of it."""

    def __init__(
        self, settings: Callable[[], MemoryConfig], scope: Scope, team: str | None = None, role: Role = "member"
    ) -> None:
        self._settings = settings
        self._scope = scope
        self._team, self._role = team, role
        self._opening: asyncio.Task[AsyncMemory] | None = None

    def may_write(self, context: RequestContext) -> bool:
        """Return True: the process runs as the person whose memory it is."""
        return True

    def caller(self, context: RequestContext) -> str:
        """Return the scope as text."""
        return repr(self._scope)

    async def open(self, context: RequestContext) -> CallerAccess:
        """Return the access, after opening the memory; the error of an attempt that failed does not stay."""
        memory = await self._opened()
        return CallerAccess(memory=memory.within(**self._scope.given()), caller=self.caller(context))

    async def team(self, context: RequestContext) -> AsyncTeamMemory:
        """Return the team's memory as the user sees it; InvalidInputError without a team or a user."""
        if self._team is None or self._scope.user_id is None:
            raise InvalidInputError(NO_TEAM, field="team", value=self._team)
        from perdure.frontends.library.team import AsyncTeamMemory  # heavy: it imports the engine

        memory, project = await self._opened(), self._scope.project_id
        within = memory if project is None else memory.within(project_id=project)
        return AsyncTeamMemory(within, team=self._team, member=self._scope.user_id, role=self._role)

    async def _opened(self) -> AsyncMemory:
        opening = self.prepare()
        try:
            return await asyncio.shield(opening)
        except BaseException:
            if opening.done():
                self._opening = None
            raise

    def prepare(self) -> asyncio.Task[AsyncMemory]:
        """Start opening the memory, unless that has begun."""
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._open())
        return self._opening

    async def close(self) -> None:
        """Close the memory if it is open."""
        if self._opening is not None:
            opened = await asyncio.gather(self._opening, return_exceptions=True)
            for memory in opened:
                if not isinstance(memory, BaseException):
                    await memory.close()

    async def _open(self) -> AsyncMemory:
        memory = await asyncio.to_thread(self._build)
        await memory._engine.kernel.open()
        return memory

    def _build(self) -> AsyncMemory:
        """Import the engine, which takes longer than all that came before, and construct the memory."""
        from perdure.frontends.library.memory import AsyncMemory

        return AsyncMemory(self._settings())


PASSED_ON = ("tools/call", "resources/read", "prompts/get", "completion/complete")
"""Requests about memories; what the server is and has, this process says itself."""
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
OF_2026 = ("resultType", "ttlMs", "cacheScope", "_meta")
"""Fields of an answer that clients before 2026-07-28 do not know."""
LOST = "the server that runs on this folder went away during the call: look whether it was done before you call again"


class NotReached(Exception):
    """The server did not take the request, so it may be done elsewhere."""


class AttachedServer:
    """Passes requests about memories on to the server that runs on the same folder, as long as one does."""

    def __init__(self, folder: Path, scope: Scope, profiles: Sequence[str]) -> None:
        self._folder = folder
        self._scope = json.dumps(scope.given())
        self._profiles = profiles
        self._refused: str | None = None

    def found(self) -> Serving | None:
        """Return the server, if it runs, has the same tools and did not refuse."""
        serving = Serving.at(self._folder)
        if serving is None or serving.token == self._refused or not {*self._profiles} <= {*serving.profiles}:
            return None
        return serving

    async def __call__(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        """Handle one request as the SDK's middleware."""
        serving = self.found() if ctx.method in PASSED_ON else None
        if serving is None:
            return await call_next(ctx)
        params = dict(ctx.params or {})
        try:
            result = await self._asked(serving, ctx, params)
            while result.get("resultType") == "input_required" and not asks_by_answer(ctx):
                params |= {"inputResponses": await self._replies(ctx, result["inputRequests"])}
                params |= {"requestState": result.get("requestState")}
                result = await self._asked(serving, ctx, params)
        except NotReached:
            self._refused = serving.token
            return await call_next(ctx)
        if asks_by_answer(ctx):
            return result
        return {name: value for name, value in result.items() if name not in OF_2026}

    def feed(self, own: Feed) -> Feed:
        """Return the feed that the server has, and from its end on the one of this process."""

        @asynccontextmanager
        async def follow(context: RequestContext, pages: Sequence[str]) -> AsyncGenerator[AsyncIterator[str]]:
            serving = self.found()
            line = None if serving is None else await self._listening(serving, context, pages)
            if line is None:
                async with own(context, pages) as changed:
                    yield changed
                return

            async def relayed() -> AsyncIterator[str]:
                async for page in line:
                    yield page
                async with own(context, pages) as changed:
                    for page in pages:  # it may have changed between the two
                        yield page
                    async for page in changed:
                        yield page

            try:
                yield relayed()
            finally:
                line.close()

        return follow

    async def _listening(self, serving: Serving, context: RequestContext, pages: Sequence[str]) -> Listening | None:
        params = {"notifications": {"resourceSubscriptions": list(pages)}}
        line = Listening(asyncio.get_running_loop())
        begun = await line.begin(serving.url, *self._request(serving, context, "subscriptions/listen", params))
        return line if begun else None

    @staticmethod
    async def _replies(context: RequestContext, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the person during the call, as clients before 2026-07-28 do."""
        replies = {}
        for name, request in asked.items():
            form = types.ElicitRequestFormParams.model_validate(request["params"])
            reply = await context.session.elicit_form(
                form.message, form.requested_schema, related_request_id=context.request_id
            )
            replies[name] = reply.model_dump(mode="json", by_alias=True, exclude_none=True)
        return replies

    async def _asked(self, serving: Serving, context: RequestContext, params: dict[str, Any]) -> dict[str, Any]:
        body, headers = self._request(serving, context, context.method, params)
        answer = await asyncio.to_thread(_posted, serving.url, body, headers)
        if (error := answer.get("error")) is not None:
            raise MCPError(code=error["code"], message=error["message"], data=error.get("data"))
        result = answer["result"]
        assert isinstance(result, dict), "the protocol says so"
        return result

    def _request(
        self, serving: Serving, context: RequestContext, method: str, params: dict[str, Any]
    ) -> tuple[bytes, dict[str, str]]:
        """Return the body and the headers of a request to the server."""
        client = context.session.client_params
        meta = {
            types.PROTOCOL_VERSION_META_KEY: LATEST_MODERN_VERSION,
            types.CLIENT_CAPABILITIES_META_KEY: {"elicitation": {"form": {}}} if can_ask(context) else {},
        }
        if client is not None and client.client_info is not None:
            meta[types.CLIENT_INFO_META_KEY] = client.client_info.model_dump(mode="json", by_alias=True)
        headers = {
            "Authorization": f"Bearer {serving.token}",
            SCOPE_HEADER: self._scope,
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": LATEST_MODERN_VERSION,
            "Mcp-Method": method,
        }
        if (name := NAMED_BY.get(method)) is not None:
            headers["Mcp-Name"] = encode_header_value(str(params[name]))
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        return json.dumps(body).encode(), headers


class Listening:
    """A stream of changes from the server, read by a thread of its own until either side ends it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._told: asyncio.Queue[str | None] = asyncio.Queue()
        self._line: http.client.HTTPConnection | None = None

    async def begin(self, url: str, body: bytes, headers: dict[str, str]) -> bool:
        """Ask for the stream; return whether the server has said that it follows."""
        self._line = http.client.HTTPConnection(url.removeprefix("http://"))
        threading.Thread(target=self._read, args=(self._line, body, headers), name="listening", daemon=True).start()
        return await self._told.get() == ""

    async def __aiter__(self) -> AsyncIterator[str]:
        while (page := await self._told.get()) is not None:
            yield page

    def close(self) -> None:
        """End the stream, which wakes its thread."""
        if self._line is not None and self._line.sock is not None:
            with suppress(OSError):
                self._line.sock.shutdown(socket.SHUT_RDWR)

    def _read(self, line: http.client.HTTPConnection, body: bytes, headers: dict[str, str]) -> None:
        """Pass on the addresses of pages that changed: first an empty one, when the server follows; at the end None."""
        with suppress(OSError, http.client.HTTPException, ValueError, KeyError), closing(line):
            line.request("POST", "/mcp", body, headers)
            for each in line.getresponse():
                if each.startswith(b"data:"):
                    message = json.loads(each.removeprefix(b"data:"))
                    method = message.get("method")
                    if method == "notifications/subscriptions/acknowledged":
                        self._pass_on("")
                    elif method == "notifications/resources/updated":
                        self._pass_on(message["params"]["uri"])
        self._pass_on(None)

    def _pass_on(self, page: str | None) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._told.put_nowait, page)


def _posted(url: str, body: bytes, headers: dict[str, str]) -> dict[str, Any]:
    """Send a request to the server, past all proxies; its JSON-RPC answer, NotReached, or MCPError if it broke off."""
    line = http.client.HTTPConnection(url.removeprefix("http://"))
    try:
        try:
            line.connect()
        except OSError as error:
            raise NotReached from error
        line.request("POST", "/mcp", body, headers)
        response = line.getresponse()
        text = response.read().decode("utf-8")
        if "event-stream" in (response.getheader("content-type") or ""):
            text = next(part.removeprefix("data:") for part in reversed(text.splitlines()) if part.startswith("data:"))
        answer = json.loads(text)
    except (OSError, http.client.HTTPException, ValueError, StopIteration) as error:
        raise MCPError(code=types.INTERNAL_ERROR, message=LOST) from error
    finally:
        line.close()
    if not isinstance(answer, dict) or "jsonrpc" not in answer:
        raise NotReached  # a refusal by the server's door, which let nothing in
    return answer


class _Wrapped:
    """A stream of the SDK's around another one, which it closes."""

    _inner: ReadStream[SessionMessage | Exception] | WriteStream[SessionMessage]

    async def aclose(self) -> None:
        """Close the stream."""
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class Readable(_Wrapped):
    """The stream of the client's messages; a line that is none is answered with an error, which the SDK leaves out."""

    def __init__(self, inner: ReadStream[SessionMessage | Exception], writing: WriteStream[SessionMessage]) -> None:
        self._inner: ReadStream[SessionMessage | Exception] = inner
        self._writing = writing

    @property
    def last_context(self) -> Context | None:
        """The context in which the last message was read, for the SDK."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message."""
        while isinstance(item := await self._inner.receive(), Exception):
            await self._refuse(item)
        return item

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while isinstance(item := await anext(self._inner), Exception):
            await self._refuse(item)
        return item

    async def _refuse(self, error: Exception) -> None:
        """Answer as JSON-RPC has it: a blank line is left out, and what is no request has no id."""
        from mcp.shared.message import SessionMessage

        first = error.errors(include_url=False)[0] if isinstance(error, ValidationError) else None
        if first is not None and not str(first["input"]).strip():
            return
        if first is None or first["type"] == "json_invalid":
            refusal = types.ErrorData(code=types.PARSE_ERROR, message="this line is not JSON")
        else:
            refusal = types.ErrorData(code=types.INVALID_REQUEST, message="this is no message of JSON-RPC 2.0")
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the client is gone
            await self._writing.send(SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=None, error=refusal)))


class Unanswered(_Wrapped):
    """The stream of the SDK's messages to the client, without what the front has answered already."""

    def __init__(self, inner: WriteStream[SessionMessage], front: Front) -> None:
        self._inner: WriteStream[SessionMessage] = inner
        self._front = front

    async def send(self, item: SessionMessage, /) -> None:
        """Pass a message on, or drop it."""
        told = item.message
        number = told.id if isinstance(told, types.JSONRPCResponse | types.JSONRPCError) else None
        if number is None or not self._front.has_answered((type(number), number)):
            await self._inner.send(item)


async def serve_stdio(
    settings: Callable[[], MemoryConfig],
    scope: Scope,
    profiles: Sequence[str],
    front: Front,
    *,
    team: str | None = None,
    role: Role = "member",
    folder: Path | None = None,
) -> None:
    """Serve until the client closes standard input; nothing but protocol is written to standard output.

    With a `folder`, a server that runs on it answers, except for a team, whose members it would have to know.
    """
    access = FolderAccess(settings, scope, team, role)
    attached = AttachedServer(folder, scope, profiles) if folder is not None and team is None else None

    def prepare() -> None:
        if attached is None or attached.found() is None:
            access.prepare()

    def prepare_soon() -> None:
        asyncio.get_running_loop().call_later(READY_AFTER_SECONDS, prepare)

    own = own_feed(access)
    subscriptions = Subscriptions(own if attached is None else attached.feed(own))
    tools = tools_of(profiles)
    server = build_server(tools, access, Consent(), subscriptions, has_session=True, after_list=prepare_soon)
    if attached is not None:
        server.middleware.insert(len(server.middleware) - 1, attached)  # outside of the sealing of states
    front.hand_over()
    try:
        lines = anyio.wrap_file(cast(TextIO, front))
        async with stdio_server(stdin=lines) as (reading, writing):
            heard = Readable(reading, writing)
            await server.run(heard, Unanswered(writing, front), server.create_initialization_options())
    finally:
        subscriptions.close()
        await access.close()
