"""The tools, prompts and resources that the protocol's suite asks a server for (`test_simple_text` and the like).

They stand beside perdure's own, in perdure's own server: the suite judges its listing, its dispatch, its sealing of
states, its errors and its transport, which no fixture replaces.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError

from perdure.frontends.mcp.consent import RequestContext
from tests.conformance.rich_schema import RICH_SCHEMA

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
WAV = base64.b64encode(
    b"RIFF\x26\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x80\x3e\x00\x00\x02\x00\x10\x00data"
    b"\x02\x00\x00\x00\x00\x00"
).decode()
NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}
STEP = 0.05
"""Seconds between two notices of a tool that takes its time."""

Result = types.CallToolResult | types.InputRequiredResult
Handler = Callable[[RequestContext, types.CallToolRequestParams], Awaitable[Result]]
TOOLS: dict[str, tuple[types.Tool, Handler]] = {}


def tool(name: str, schema: dict[str, Any] = NO_ARGUMENTS) -> Callable[[Handler], Handler]:
    """Add a handler as a tool."""

    def add(handler: Handler) -> Handler:
        TOOLS[name] = (types.Tool(name=name, description=f"A fixture: {name}", input_schema=schema), handler)
        return handler

    return add


def said(*content: Any) -> types.CallToolResult:
    return types.CallToolResult(content=[text(each) if isinstance(each, str) else each for each in content])


def text(value: str) -> types.TextContent:
    return types.TextContent(type="text", text=value)


def image() -> types.ImageContent:
    return types.ImageContent(type="image", data=PNG, mime_type="image/png")


def embedded(uri: str, kind: str, value: str) -> types.EmbeddedResource:
    return types.EmbeddedResource(
        type="resource", resource=types.TextResourceContents(uri=uri, mime_type=kind, text=value)
    )


for _name, _content in {
    "test_simple_text": [text("This is a simple text response for testing.")],
    "test_image_content": [image()],
    "test_audio_content": [types.AudioContent(type="audio", data=WAV, mime_type="audio/wav")],
    "test_embedded_resource": [
        embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")
    ],
    "test_multiple_content_types": [
        text("Multiple content types test:"),
        image(),
        embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ],
    "json_schema_2020_12_tool": [text("valid")],
}.items():

    async def _fixed(
        context: RequestContext, params: types.CallToolRequestParams, content: list[Any] = _content
    ) -> Result:
        return said(*content)

    tool(_name, RICH_SCHEMA if _name.startswith("json") else NO_ARGUMENTS)(_fixed)


@tool("test_error_handling")
async def fails(context: RequestContext, params: types.CallToolRequestParams) -> Result:
    content = text("This tool intentionally returns an error for testing")
    return types.CallToolResult(content=[content], is_error=True)


@tool("test_custom_headers", {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}})
async def custom_header(context: RequestContext, params: types.CallToolRequestParams) -> Result:
    return said(json.dumps(params.arguments))


@tool("test_tool_with_logging")
@tool("test_logging_tool")
async def logs(context: RequestContext, params: types.CallToolRequestParams) -> Result:
    for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await context.session.send_log_message("info", message, related_request_id=context.request_id)
        await asyncio.sleep(STEP)
    return said("logged")


@tool("test_tool_with_progress")
@tool("test_streaming_elicitation")
async def progresses(context: RequestContext, params: types.CallToolRequestParams) -> Result:
    for done in (0, 50, 100):
        await context.session.report_progress(done, 100)
        await asyncio.sleep(STEP)
    return said("done")


@tool("test_reconnection")
async def reconnects(context: RequestContext, params: types.CallToolRequestParams) -> Result:
    if context.close_sse_stream is not None:
        await context.close_sse_stream()
    await asyncio.sleep(4 * STEP)
    return said("Reconnection test completed")


# ---------------------------------------------------------------- questions of 2025: during the call


@tool("test_sampling", {"type": "object", "properties": {"prompt": {"type": "string"}}, "required": ["prompt"]})
async def samples(context: RequestContext, params: types.CallToolRequestParams) -> Result:
    prompt = str((params.arguments or {})["prompt"])
    reply = await context.session.create_message(
        [types.SamplingMessage(role="user", content=text(prompt))],
        max_tokens=100,
        related_request_id=context.request_id,
    )
    assert isinstance(reply.content, types.TextContent)
    return said(f"LLM response: {reply.content.text}")


async def form(context: RequestContext, message: str, properties: dict[str, Any], required: list[str]) -> Result:
    schema = {"type": "object", "properties": properties, "required": required}
    reply = await context.session.elicit_form(message, schema, related_request_id=context.request_id)
    return said(f"Elicitation completed: action={reply.action}, content={json.dumps(reply.content)}")


@tool("test_elicitation", {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]})
async def elicits(context: RequestContext, params: types.CallToolRequestParams) -> Result:
    told = {name: {"type": "string", "description": f"User's {name}"} for name in ("username", "email")}
    return await form(context, str((params.arguments or {})["message"]), told, [*told])


@tool("test_elicitation_sep1034_defaults")
async def defaults(context: RequestContext, params: types.CallToolRequestParams) -> Result:
    told: dict[str, Any] = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return await form(context, "Who are you?", told, [])


@tool("test_elicitation_sep1330_enums")
async def enums(context: RequestContext, params: types.CallToolRequestParams) -> Result:
    options = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": f"{word} Option"} for n, word in enumerate(("First", "Second"), 1)]
    told: dict[str, Any] = {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return await form(context, "Choose", told, [])


# ---------------------------------------------------------------- questions of 2026: as the answer to the call


def question(message: str, field: str, kind: str = "string") -> types.ElicitRequest:
    schema = {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def sampling(message: str, tokens: int) -> types.CreateMessageRequest:
    messages = [types.SamplingMessage(role="user", content=text(message))]
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=messages, max_tokens=tokens))


def asked(state: str | None = None, **requests: Any) -> types.InputRequiredResult:
    return types.InputRequiredResult(input_requests=requests, request_state=state)


def reply(params: Any, name: str, kind: type) -> Any:
    """The client's reply of a kind to one question, if it has one."""
    found = (params.input_responses or {}).get(name)
    return found if isinstance(found, kind) else None


NAME = question("What is your name?", "name")


@tool("test_input_required_result_elicitation")
async def asks_name(context: RequestContext, params: types.CallToolRequestParams) -> Result:
    found = reply(params, "user_name", types.ElicitResult)
    name = (found.content or {}).get("name") if found is not None else None
    return said(f"Hello, {name}!") if isinstance(name, str) else asked(user_name=NAME)


@tool("test_input_required_result_sampling")
async def asks_model(context: RequestContext, params: types.CallToolRequestParams) -> Result:
    found = reply(params, "capital_question", types.CreateMessageResult)
    if found is None:
        return asked(capital_question=sampling("What is the capital of France?", 100))
    return said(found.content.text)


@tool("test_input_required_result_list_roots")
async def asks_roots(context: RequestContext, params: types.CallToolRequestParams) -> Result:
    found = reply(params, "client_roots", types.ListRootsResult)
    if found is None:
        return asked(client_roots=types.ListRootsRequest())
    return said(" ".join(str(root.uri) for root in found.roots))


@tool("test_input_required_result_request_state")
@tool("test_input_required_result_tampered_state")
async def keeps_state(context: RequestContext, params: types.CallToolRequestParams) -> Result:
    if params.request_state == "kept" and reply(params, "confirm", types.ElicitResult):
        return said("state-ok")
    return asked("kept", confirm=question("Please confirm", "ok", "boolean"))


@tool("test_input_required_result_multiple_inputs")
async def asks_three(context: RequestContext, params: types.CallToolRequestParams) -> Result:
    requests = {
        "user_name": NAME,
        "greeting": sampling("Generate a greeting", 50),
        "client_roots": types.ListRootsRequest(),
    }
    return (
        said("all of them") if requests.keys() <= (params.input_responses or {}).keys() else asked("three", **requests)
    )


@tool("test_input_required_result_multi_round")
async def asks_twice(context: RequestContext, params: types.CallToolRequestParams) -> Result:
    if params.request_state == "two" and reply(params, "step2", types.ElicitResult):
        return said("both steps")
    if params.request_state == "one" and reply(params, "step1", types.ElicitResult):
        return asked("two", step2=question("Step 2: What is your favorite color?", "color"))
    return asked("one", step1=question("Step 1: What is your name?", "name"))


@tool("test_input_required_result_capabilities")
async def asks_what_is_able(context: RequestContext, params: types.CallToolRequestParams) -> Result:
    able = context.session.client_capabilities or types.ClientCapabilities()
    requests: dict[str, Any] = {"name": NAME} if able.elicitation else {}
    if able.sampling:
        requests["greeting"] = sampling("Generate a greeting", 50)
    return asked(**requests)


@tool("test_missing_capability")
async def needs_sampling(context: RequestContext, params: types.CallToolRequestParams) -> Result:
    able = context.session.client_capabilities
    if able is None or able.sampling is None:
        raise MCPError(
            code=types.MISSING_REQUIRED_CLIENT_CAPABILITY,
            message="this tool needs sampling",
            data={"requiredCapabilities": {"sampling": {}}},
        )
    return said("sampling is there")


# ---------------------------------------------------------------- resources and prompts

RESOURCES: dict[str, tuple[str, str | bytes]] = {
    "test://static-text": ("text/plain", "This is the content of the static text resource."),
    "test://static-binary": ("image/png", base64.b64decode(PNG)),
    "test://watched-resource": ("text/plain", "Watched resource content"),
}
TEMPLATE = "test://template/{id}/data"
PROMPTS: dict[str, tuple[str, ...]] = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}


def contents(uri: str) -> types.TextResourceContents | types.BlobResourceContents | None:
    if uri in RESOURCES:
        kind, value = RESOURCES[uri]
        if isinstance(value, bytes):
            return types.BlobResourceContents(uri=uri, mime_type=kind, blob=base64.b64encode(value).decode())
        return types.TextResourceContents(uri=uri, mime_type=kind, text=value)
    start, _, rest = TEMPLATE.partition("{id}")
    if uri.startswith(start) and uri.endswith(rest):
        name = uri[len(start) : -len(rest)]
        told = json.dumps({"id": name, "templateTest": True, "data": f"Data for ID: {name}"})
        return types.TextResourceContents(uri=uri, mime_type="application/json", text=told)
    return None


def prompt(params: types.GetPromptRequestParams) -> types.GetPromptResult | types.InputRequiredResult:
    given = params.arguments or {}
    messages: list[Any]
    match params.name:
        case "test_simple_prompt":
            messages = [text("This is a simple prompt for testing.")]
        case "test_prompt_with_arguments":
            messages = [text(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'")]
        case "test_prompt_with_embedded_resource":
            resource = embedded(given["resourceUri"], "text/plain", "Embedded resource content for testing.")
            messages = [resource, text("Please process the embedded resource above.")]
        case "test_prompt_with_image":
            messages = [image(), text("Please analyze the image above.")]
        case _:
            found = reply(params, "user_context", types.ElicitResult)
            if found is None:
                return asked(user_context=question("What context should the prompt use?", "context"))
            messages = [text(f"Use {(found.content or {}).get('context')}")]
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=each) for each in messages])


class Events(EventStore):
    """What was sent, for clients that come back."""

    def __init__(self) -> None:
        self._sent: list[tuple[str, types.JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: types.JSONRPCMessage | None) -> str:
        self._sent.append((stream_id, message))
        return str(len(self._sent))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        last = int(last_event_id)
        stream = self._sent[last - 1][0]
        for number, (each, message) in enumerate(self._sent[last:], last + 1):
            if each == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


def with_fixtures(server: Server[Any]) -> Server[Any]:
    """Add the fixtures to a server: what is not one of them goes to the server's own handler."""

    def own(method: str) -> Any:
        found = server.get_request_handler(method)
        assert found is not None, method
        return found

    bus = InMemorySubscriptionBus()
    for method, event in (("tool", ToolsListChanged()), ("prompt", PromptsListChanged())):

        async def tells(context: RequestContext, params: types.CallToolRequestParams, event: Any = event) -> Result:
            await bus.publish(event)
            return said("told")

        tool(f"test_trigger_{method}_change")(tells)

    def put(method: str, change: Callable[[Any, RequestContext, Any], Awaitable[Any]]) -> None:
        entry = own(method)

        async def handler(context: RequestContext, params: Any) -> Any:
            return await change(entry.handler, context, params)

        server.add_request_handler(method, entry.params_type, handler)

    async def tools_list(before: Any, context: RequestContext, params: Any) -> Any:
        found = await before(context, params)
        return types.ListToolsResult(tools=[*found.tools, *(each for each, _ in TOOLS.values())])

    async def tools_call(before: Any, context: RequestContext, params: Any) -> Any:
        return await (TOOLS[params.name][1] if params.name in TOOLS else before)(context, params)

    async def resources_list(before: Any, context: RequestContext, params: Any) -> Any:
        found = await before(context, params)
        ours = [
            types.Resource(uri=uri, name=uri.rpartition("/")[2], description="A fixture", mime_type=kind)
            for uri, (kind, _) in RESOURCES.items()
        ]
        return types.ListResourcesResult(resources=[*found.resources, *ours])

    async def templates_list(before: Any, context: RequestContext, params: Any) -> Any:
        found = await before(context, params)
        ours = types.ResourceTemplate(uri_template=TEMPLATE, name="template", description="A fixture")
        return types.ListResourceTemplatesResult(resource_templates=[*found.resource_templates, ours])

    async def resources_read(before: Any, context: RequestContext, params: Any) -> Any:
        found = contents(str(params.uri))
        return await before(context, params) if found is None else types.ReadResourceResult(contents=[found])

    async def prompts_list(before: Any, context: RequestContext, params: Any) -> Any:
        found = await before(context, params)
        ours = [
            types.Prompt(
                name=name,
                description="A fixture",
                arguments=[types.PromptArgument(name=each, required=True) for each in arguments],
            )
            for name, arguments in PROMPTS.items()
        ]
        return types.ListPromptsResult(prompts=[*found.prompts, *ours])

    async def prompts_get(before: Any, context: RequestContext, params: Any) -> Any:
        return prompt(params) if params.name in PROMPTS else await before(context, params)

    async def complete(before: Any, context: RequestContext, params: Any) -> Any:
        if getattr(params.ref, "name", None) not in PROMPTS:
            return await before(context, params)
        return types.CompleteResult(completion=types.Completion(values=["paris", "park", "party"], total=3))

    of_lists = ListenHandler(bus)

    async def listen(before: Any, context: RequestContext, params: types.SubscriptionsListenRequestParams) -> Any:
        """The fixtures' lists change, and perdure's do not."""
        asked = params.notifications
        is_of_lists = asked.tools_list_changed or asked.prompts_list_changed or asked.resources_list_changed
        return await (of_lists(context, params) if is_of_lists else before(context, params))

    async def discover(before: Any, context: RequestContext, params: Any) -> Any:
        found = await before(context, params)
        able = found.capabilities
        for kind in (able.tools, able.prompts, able.resources):
            kind.list_changed = True
        return found

    for method, change in {
        "subscriptions/listen": listen,
        "server/discover": discover,
        "tools/list": tools_list,
        "tools/call": tools_call,
        "resources/list": resources_list,
        "resources/templates/list": templates_list,
        "resources/read": resources_read,
        "prompts/list": prompts_list,
        "prompts/get": prompts_get,
        "completion/complete": complete,
    }.items():
        put(method, change)

    own_schema = server.get_tool_input_schema
    assert own_schema is not None, "perdure checks headers against schemas"
    server.get_tool_input_schema = lambda name: TOOLS[name][0].input_schema if name in TOOLS else own_schema(name)

    async def nothing(context: RequestContext, params: Any) -> types.EmptyResult:
        return types.EmptyResult()

    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, nothing)
    server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, nothing)
    server.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, nothing)
    return server
