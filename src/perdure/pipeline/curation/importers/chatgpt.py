"""ChatGPT's data export: `conversations.json`, or `conversations-000.json` and on, of the zip that OpenAI sends.

A conversation is a tree: `mapping` holds the nodes, `current_node` the end of the branch that was seen last. OpenAI
publishes no schema; this is what exports up to autumn 2026 hold, and what is not known here is left out by name.

Saved memories have no file of their own. Their traces are the copies that a conversation was given
(`model_editable_context`: "1. [2024-09-29]. User is ...") and the writes (`recipient: "bio"`): taken are the entries of
the latest copy, and the writes after it.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping
from typing import Any, Final

from perdure.domain.text.pattern import Pattern
from perdure.domain.text.readable import is_unicode
from perdure.pipeline.curation.importers import records

NAME: Final = "chatgpt"
SOURCE: Final = "import:chatgpt"
_ENTRY = Pattern(r"^\s*(?:\d+\.\s*)?\[(\d{4}-\d{2}-\d{2})\]\.?\s*", re.MULTILINE)
_TAKE_BACK = Pattern(r"^\s*(?:forget|delete|remove|ignore)\b", re.IGNORECASE)
_REASONS: Final = {
    "user_editable_context": "custom instructions",
    "thoughts": "the model's reasoning",
    "reasoning_recap": "the model's reasoning",
    "code": "code for a tool",
    "execution_output": "a tool's message",
    "system_error": "a tool's message",
}
_PARTS: Final = {
    "image_asset_pointer": "an image",
    "audio_asset_pointer": "a sound",
    "video_container_asset_pointer": "a video",
    "real_time_user_audio_video_asset_pointer": "a sound",
}


def is_chatgpt(value: Any) -> bool:
    """Whether an object is a conversation of ChatGPT."""
    return isinstance(value, Mapping) and isinstance(value.get("mapping"), Mapping)


class ChatGPTReader(records.Reader):
    """Reads conversations, and what they show of the saved memories."""

    def __init__(self) -> None:
        self._copy: tuple[str, str, str] = ("", "", "")
        """Moment, text and place of the latest copy of the saved memories."""
        self._writes: list[tuple[str, str, str]] = []

    def read(self, value: Any, where: str) -> Iterator[records.Found]:
        """One conversation: the branch that was seen last."""
        if not is_chatgpt(value):
            yield records.Damaged("it has no `mapping` of messages", where)
            return
        given = value.get("conversation_id") or value.get("id")
        place = f"{where} ({records.short(value.get('title') or given)})"
        if value.get("is_do_not_remember") is True:
            yield records.LeftOut("a conversation that was to be kept out of memory", place)
            return
        nodes = {
            id: node
            for id, node in value["mapping"].items()
            if isinstance(node, Mapping) and isinstance(node.get("parent"), str | None)
        }
        for id in value["mapping"].keys() - nodes.keys():
            yield records.Damaged("a node of the conversation is no object", f"{place}, {records.short(id)}")
        parents = {id: node.get("parent") for id, node in nodes.items()}
        current = value.get("current_node")
        if not isinstance(current, str) or current not in nodes:
            current = records.newest_leaf(
                parents, {id: records.moment_of(_message(node).get("create_time")) or "" for id, node in nodes.items()}
            )
        branch = records.branch_to(current, parents)
        taken = set(branch)
        for id, node in nodes.items():
            if id not in taken and _message(node):
                yield records.LeftOut("on a branch that was edited or regenerated away", place)
        conversation = records.lasting_id(
            given, "chatgpt", given, value.get("title"), value.get("create_time"), branch[:2]
        )
        messages: list[dict[str, Any]] = []
        before = records.moment_of(value.get("create_time"))
        for number, id in enumerate(branch, 1):
            message = _message(nodes[id])
            spot = f"{place}, message {number}"
            if not message:
                continue  # the root, and nodes that the tool left empty
            before = records.moment_of(message.get("create_time")) or before
            text = yield from self._text(message, spot, before)
            if text is not None:
                own = message.get("id") or id
                found = {
                    "role": message["author"]["role"],
                    "content": text,
                    "id": f"chatgpt:{records.mark(conversation, own)}",
                }
                messages.append(found if before is None else {**found, "timestamp": before})
        yield records.conversation_of(place, NAME, conversation, value.get("title"), messages)

    def finish(self) -> Iterator[records.Found]:
        """The saved memories."""
        moment, text, where = self._copy
        cuts = list(_ENTRY.finditer(text))
        seen: set[str] = set()
        ends = [each.start() for each in cuts[1:]] + [len(text)]
        for cut, end in zip(cuts, ends, strict=False):
            entry = text[cut.end() : end].strip()
            seen.add(entry)
            yield from _saved(entry, cut.group(1), where)
        if text and not cuts:
            yield records.LeftOut("a copy of the saved memories that is no list", where)
        for written, entry, place in self._writes:
            if moment and written <= moment:
                yield records.LeftOut("a saved memory's writing that is older than the latest copy of them all", place)
            elif entry not in seen:
                seen.add(entry)
                yield from _saved(entry, written, place)

    def _text(
        self, message: Mapping[str, Any], spot: str, moment: str | None
    ) -> Generator[records.Found, None, str | None]:
        """The words of a message, or None where it has none that were said; what is left out comes on the way."""
        author, content = message.get("author"), message.get("content")
        if not isinstance(author, Mapping) or not isinstance(content, Mapping):
            yield records.Damaged("a message without an author or content", spot)
            return None
        kind = content.get("content_type")
        if kind == "model_editable_context":
            copy = content.get("model_set_context")
            if isinstance(copy, str) and copy.strip() and is_unicode(copy) and (moment or "") >= self._copy[0]:
                self._copy = (moment or "", copy, spot)
            return None
        if author.get("role") == "assistant" and message.get("recipient") == "bio":
            yield from self._note_write(content, spot, moment)
            return None
        reason = _left_out(message, author, kind)
        if reason is not None:
            yield records.LeftOut(reason, spot)
            return None
        texts: list[str] = []
        for _ in range(_files(message)):
            yield records.LeftOut("an attached file", spot)
        for part in _parts(content):
            words, reason = _part(part)
            if reason is not None:
                yield records.LeftOut(reason, spot)
            else:
                texts.append(words)
        return (yield from records.joined_text(texts, spot))

    def _note_write(self, content: Mapping[str, Any], spot: str, moment: str | None) -> Iterator[records.Found]:
        text = "\n".join(part for part in _parts(content) if isinstance(part, str)).strip()
        if not text or not is_unicode(text):
            yield records.LeftOut("an empty message", spot)
        elif _TAKE_BACK.match(text):
            yield records.LeftOut("a request to forget a saved memory", spot)
        else:
            self._writes.append((moment or "", text, spot))


def _message(node: Mapping[str, Any]) -> Mapping[str, Any]:
    message = node.get("message")
    return message if isinstance(message, Mapping) else {}


def _left_out(message: Mapping[str, Any], author: Mapping[str, Any], kind: object) -> str | None:
    """Why a message is none that was said in the conversation; None if it was."""
    metadata = message.get("metadata")
    if kind in _REASONS and not (kind == "code" and _is_heard(message)):
        return _REASONS[str(kind)]
    if author.get("role") == "tool":
        return "a tool's message"
    if author.get("role") not in ("user", "assistant"):
        return "a system message" if author.get("role") == "system" else "a message of an unknown role"
    if isinstance(metadata, Mapping) and metadata.get("is_visually_hidden_from_conversation"):
        return "a hidden message"
    if author.get("role") == "assistant" and not _is_heard(message):
        return "a message to a tool"
    if message.get("channel") == "analysis":
        return "the model's reasoning"
    if kind not in ("text", "multimodal_text", "code"):
        return f"content of the type {records.short(kind) or 'unknown'}"
    return None


def _files(message: Mapping[str, Any]) -> int:
    """How many files go with a message; images are parts of it too, and are told as such."""
    metadata = message.get("metadata")
    given = metadata.get("attachments") if isinstance(metadata, Mapping) else None
    files = [each for each in given if isinstance(each, Mapping)] if isinstance(given, list) else []
    return sum(not str(each.get("mime_type") or "").startswith("image/") for each in files)


def _is_heard(message: Mapping[str, Any]) -> bool:
    return message.get("recipient") in (None, "all")


def _parts(content: Mapping[str, Any]) -> list[Any]:
    parts = content.get("parts")
    if isinstance(parts, list):
        return parts
    return [content["text"]] if isinstance(content.get("text"), str) else []


def _part(part: object) -> tuple[str, str | None]:
    """The words of a part, or why it has none."""
    if isinstance(part, str):
        return part, None
    if not isinstance(part, Mapping):
        return "", None if part is None else "a part of a message that is no text"
    kind = part.get("content_type")
    if kind in ("audio_transcription", "text", None) and isinstance(part.get("text"), str):
        return part["text"], None
    return "", _PARTS.get(str(kind), f"a part of the type {records.short(kind) or 'unknown'}")


def _saved(text: str, told: str, where: str) -> Iterator[records.Found]:
    if text:
        line: dict[str, Any] = {
            "memory": text,
            "id": records.lasting_id(None, "chatgpt", "saved", text),
            "source": SOURCE,
        }
        line["metadata"] = {"imported_from": NAME, "saved_memory": True}
        yield records.ForeignFact(where, {**line, "timestamp": told, "created_at": told} if told else line)
