"""Claude's data export: `conversations.json`, and the memory that Claude keeps (`memories.json`, `memories/<id>.json`).

    {"uuid", "name", "created_at", "chat_messages": [{"uuid", "sender", "text", "content": [...], "created_at", ...}]}
    {"conversations_memory": text, "project_memories": {id: text}, "memory_files": [{"path", "content", "updated_at"}]}

Anthropic publishes no schema; this is what exports up to autumn 2026 hold. A message's words are its `text` blocks: the
flat `text` beside them also holds the model's thoughts and a placeholder for each tool. Where messages name their
parents, the branch with the newest end is taken. Claude's memory is prose: each of its paragraphs and points is a fact.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import Any, Final

from perdure.domain.text.pattern import Pattern
from perdure.domain.text.readable import is_unicode, kind_of
from perdure.pipeline.curation.importers import records

NAME: Final = "claude"
SOURCE: Final = "import:claude"
_ROLES: Final = {"human": "user", "user": "user", "assistant": "assistant"}
_MEMORY = ("conversations_memory", "project_memories", "memory_files")
_UNSHOWN = Pattern(r"\s*```\s*This block is not supported on your current device yet\.\s*```\s*")
_HEADING = Pattern(r"^(?:#{1,6}\s+(.+?)\s*#*|\*\*([^*]+?):?\*\*:?)$")
_POINT = Pattern(r"^\s*(?:[-*+•]|\d+[.)])\s+")
_BLOCKS: Final = {
    "thinking": "the model's reasoning",
    "redacted_thinking": "the model's reasoning",
    "tool_use": "a message to a tool",
    "tool_result": "a tool's message",
    "token_budget": "a tool's message",
    "image": "an image",
}


def is_claude(value: Any) -> bool:
    """Whether an object is a conversation, a memory or a project of Claude."""
    return isinstance(value, Mapping) and (
        isinstance(value.get("chat_messages"), list) or any(name in value for name in _MEMORY) or _is_project(value)
    )


def _is_project(value: Mapping[str, Any]) -> bool:
    return "uuid" in value and ("prompt_template" in value or isinstance(value.get("docs"), list))


class ClaudeReader(records.Reader):
    """Reads conversations and memories."""

    def read(self, value: Any, where: str) -> Iterator[records.Found]:
        """One conversation, or the memory of one account."""
        if not isinstance(value, Mapping):
            yield records.Damaged(f"a conversation must be an object, not {kind_of(value)}", where)
        elif isinstance(value.get("chat_messages"), list):
            yield from _talk(value, where)
        elif any(name in value for name in _MEMORY):
            yield from _memories(value, where)
        elif _is_project(value):
            yield records.LeftOut(
                "a project: its instructions and documents are no memories",
                f"{where} ({records.short(value.get('name'))})",
            )
        else:
            yield records.Damaged("it has no `chat_messages` and no memories", where)


def _talk(value: Mapping[str, Any], where: str) -> Iterator[records.Found]:
    place = f"{where} ({records.short(value.get('name') or value.get('uuid'))})"
    given: list[tuple[str, Mapping[str, Any]]] = []
    for number, message in enumerate(value["chat_messages"], 1):
        if isinstance(message, Mapping):
            given.append((str(message.get("uuid") or number), message))
        else:
            yield records.Damaged("a message is no object", f"{place}, message {number}")
    taken = _branch(given, value.get("current_leaf_message_uuid"))
    conversation = records.lasting_id(
        value.get("uuid"), "claude", value.get("uuid"), value.get("name"), value.get("created_at")
    )
    messages: list[dict[str, Any]] = []
    before = records.moment_of(value.get("created_at"))
    for number, (id, message) in enumerate(given, 1):
        spot = f"{place}, message {number}"
        if id not in taken:
            yield records.LeftOut("on a branch that was edited or regenerated away", spot)
            continue
        before = records.moment_of(message.get("created_at")) or before
        role = _ROLES.get(str(message.get("sender")))
        if role is None:
            yield records.LeftOut("a message of an unknown role", spot)
            continue
        text = yield from _text(message, spot)
        if text is not None:
            found = {"role": role, "content": text, "id": f"claude:{records.mark(conversation, id)}"}
            messages.append(found if before is None else {**found, "timestamp": before})
    yield records.conversation_of(place, NAME, conversation, value.get("name"), messages)


def _branch(given: list[tuple[str, Mapping[str, Any]]], leaf: object) -> set[str]:
    """The messages of the branch that counts: all of them where messages name no parents, or the tree is broken."""
    known = {id for id, _ in given}
    parents: dict[str, str | None] = {}
    for id, message in given:
        parent = message.get("parent_message_uuid")
        parents[id] = parent if isinstance(parent, str) and parent in known else None  # the first names a root of zeros
    if not any(parents.values()) or len(parents) < len(given):
        return known
    times = {id: records.moment_of(message.get("created_at")) or "" for id, message in given}
    end = leaf if isinstance(leaf, str) and leaf in known else records.newest_leaf(parents, times)
    return set(records.branch_to(end, parents)) or known


def _text(message: Mapping[str, Any], spot: str) -> Generator[records.Found, None, str | None]:
    """The words of a message, or None where it has none; what is left out comes on the way."""
    texts: list[str] = []
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    for block in blocks:
        kind = block.get("type") if isinstance(block, Mapping) else None
        if kind == "text" and isinstance(block.get("text"), str):
            texts.append(block["text"])
        else:
            yield records.LeftOut(
                _BLOCKS.get(str(kind), f"a part of the type {records.short(kind) or 'unknown'}"), spot
            )
    if not blocks and isinstance(message.get("text"), str):
        texts.append(_UNSHOWN.sub("\n", message["text"]))
    for attachment in _list(message.get("attachments")):
        given = attachment if isinstance(attachment, Mapping) and not attachment.get("file_name") else {}
        pasted = given.get("extracted_content")
        if isinstance(pasted, str) and not "".join(texts).strip():
            texts.append(pasted)  # a long text that was pasted as the message itself
        else:
            yield records.LeftOut("an attached file", spot)
    for _ in _list(message.get("files")):
        yield records.LeftOut("an attached file", spot)
    return (yield from records.joined_text(texts, spot))


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _memories(value: Mapping[str, Any], where: str) -> Iterator[records.Found]:
    projects, files = value.get("project_memories"), value.get("memory_files")
    yield from _prose(value.get("conversations_memory"), f"{where} (conversations_memory)", {})
    for id, text in projects.items() if isinstance(projects, Mapping) else ():
        yield from _prose(text, f"{where} (project {records.short(id)})", {"project_uuid": id})
    for number, file in enumerate(_list(files), 1):
        if not isinstance(file, Mapping):
            yield records.Damaged("a memory file is no object", f"{where}, file {number}")
            continue
        fields = {"memory_file": file["path"]} if isinstance(file.get("path"), str) else {}
        told = records.moment_of(file.get("updated_at"))
        yield from _prose(file.get("content"), f"{where} ({records.short(file.get('path') or number)})", fields, told)


def _prose(text: object, where: str, fields: dict[str, Any], told: str | None = None) -> Iterator[records.Found]:
    """The paragraphs and points of a text in Markdown, each a fact; headings become the section of what follows."""
    if text is None or (isinstance(text, str) and not text.strip()):
        return
    if not isinstance(text, str) or not is_unicode(text):
        yield records.Damaged("a memory that is no Unicode text", where)
        return
    section: str | None = None
    for paragraph in _paragraphs(text):
        heading = _HEADING.match(paragraph)
        if heading:
            section = (heading.group(1) or heading.group(2)).strip()
            continue
        about = {**fields, **({"section": section} if section else {})}
        line: dict[str, Any] = {"memory": paragraph, "source": SOURCE, "metadata": {"imported_from": NAME, **about}}
        line["id"] = records.lasting_id(None, "claude", fields, paragraph)
        if told is not None:
            line["timestamp"] = told
        yield records.ForeignFact(where, line)


def _paragraphs(text: str) -> Iterator[str]:
    """Paragraphs, with a point of a list or a heading as one of its own; lines of one paragraph are joined."""
    lines: list[str] = []
    for line in [*text.splitlines(), ""]:
        stripped = line.strip()
        begins = not stripped or bool(_POINT.match(line)) or bool(_HEADING.match(stripped))
        if begins and lines:
            yield " ".join(lines)
            lines = []
        if stripped and _HEADING.match(stripped):
            yield stripped
        elif stripped:
            lines.append(_POINT.sub("", line).strip() if begins else stripped)
