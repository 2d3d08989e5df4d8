"""Exports in the shapes in which other tools write them.

mem0's and LangGraph's are what mem0ai 2.2.1 and langgraph 1.2.22 wrote here (`get_all`, a scroll of Qdrant's points,
`item.dict()`, the table of `SqliteStore`); the platform's are its API reference's; ChatGPT's and Claude's follow
exports of 2026 as those who parse them describe them, for neither vendor publishes a schema.
"""

from __future__ import annotations

from typing import Any

OPEN: dict[str, Any] = {
    "id": "4cb4267f-da95-4dc0-9f60-fd4398a2d705", "memory": "Ana moved to Porto in April",
    "hash": "a5888de26427bcca1e477f1d8e93a514", "metadata": {"tag": "work", "n": 1.5, "deep": {"a": [1, None]}},
    "created_at": "2026-11-22T01:16:14.372551+00:00", "updated_at": "2026-11-22T01:16:14.389128+00:00",
    "user_id": "ana", "agent_id": "travel", "run_id": "r1", "actor_id": "Ana", "role": "user",
}  # fmt: skip
EXPIRING: dict[str, Any] = {
    "id": "67fb542f-c5cc-41f6-a394-4bf74a5e60b4", "memory": "Ben is allergic to peanuts",
    "hash": "87b100a47de2bdf936a927ac6f52fa1e", "metadata": None,
    "created_at": "2026-11-22T01:16:14.378038+00:00", "updated_at": "2026-11-22T01:16:14.378038+00:00",
    "user_id": "ben", "role": "user", "expiration_date": "2030-01-31",
}  # fmt: skip
PLATFORM: dict[str, Any] = {
    "id": "ea925981-272f-40dd-b576-be64e4871429", "memory": "Likes to play cricket and plays it on weekends.",
    "user_id": "alex", "agent_id": None, "app_id": "diary", "run_id": None, "hash": "c3b1",
    "input": [{"role": "user", "content": "I play cricket"}], "metadata": {"category": "hobbies", "user_id": "shadow"},
    "categories": ["sports", "hobbies"], "immutable": True, "expiration_date": None, "owner": "org-1",
    "created_at": "2025-02-26T10:29:36.630547-08:00", "updated_at": "2025-03-01T09:00:00Z", "score": 0.4,
    "lifecycle_state": "active", "replaced_by": None, "structured_attributes": {"day": 26},
}  # fmt: skip
POINT: dict[str, Any] = {
    "id": "4cb4267f-da95-4dc0-9f60-fd4398a2d705",
    "payload": {
        "tag": "work", "deep": {"a": [1, None]}, "user_id": "ana", "agent_id": "travel", "run_id": "r1", "role": "user",
        "data": "Ana moved to Porto in April", "hash": "a5888de2", "created_at": "2026-11-22T01:16:14.372551+00:00",
        "updated_at": "2026-11-22T01:16:14.389128+00:00", "text_lemmatized": "ana move porto april",
    },
    "vector": None, "shard_key": None, "order_value": None,
}  # fmt: skip
HISTORY: dict[str, Any] = {
    "id": "0a431591-77c2-499b-b40c-c19b4cbc6364", "memory_id": "4cb4267f-da95-4dc0-9f60-fd4398a2d705",
    "old_memory": None, "new_memory": "Noted", "event": "ADD", "created_at": "2026-11-22T01:16:14.372551+00:00",
    "updated_at": "2026-11-22T01:16:14.372551+00:00", "is_deleted": False, "actor_id": None, "role": "assistant",
}  # fmt: skip

ITEM: dict[str, Any] = {
    "namespace": ["memories", "ana"],
    "key": "k1",
    "value": {"kind": "Memory", "content": {"content": "Ana plays the cello"}},
    "created_at": "2026-11-22T01:16:14.664099+00:00",
    "updated_at": "2026-11-22T01:16:14.664104+00:00",
    "score": None,
}
ROW: dict[str, Any] = {
    "prefix": "memories.ben",
    "key": "7b0f6d3e-6f0f-4d3e-9a55-0a2b6f1f6f10",
    "value": '{"content": "Ben swims", "mood": "calm"}',
    "created_at": "2026-11-22 01:16:14",
    "updated_at": "2026-11-22 01:16:14",
    "expires_at": None,
    "ttl_minutes": None,
}


def node(id: str, parent: str | None, children: list[str], message: dict[str, Any] | None) -> dict[str, Any]:
    return {"id": id, "parent": parent, "children": children, "message": message}


def said(
    id: str, role: str, parts: list[Any] | None, at: float | None, kind: str = "text", **more: Any
) -> dict[str, Any]:
    content = more.pop("content", {"content_type": kind, "parts": parts})
    return {
        "id": id, "author": {"role": role, "name": more.pop("name", None), "metadata": {}}, "create_time": at,
        "update_time": None, "content": content, "status": "finished_successfully", "end_turn": True, "weight": 1.0,
        "metadata": {}, "recipient": "all", "channel": None, **more,
    }  # fmt: skip


HIDDEN = {"is_visually_hidden_from_conversation": True}
PAGE = {"content_type": "sonic_webpage", "text": "page"}
IMAGE = {"content_type": "image_asset_pointer", "asset_pointer": "sediment://file_1", "width": 1, "metadata": {}}
PROFILE = {"content_type": "user_editable_context", "user_profile": "34 years old", "user_instructions": "be brief"}
SAVED = "1. [2024-09-29]. User plays the cello.\n\n2. [2024-09-30]. User is a vet.\nand has a van."
T0 = 1_735_722_000.5  # 2025-01-01T09:00:00.5Z


def chatgpt_conversation() -> dict[str, Any]:
    """A tree with custom instructions, a saved-memories copy, a regenerated answer, tools, an image, voice and code."""
    messages = [
        node("root", None, ["sys"], None),
        node("sys", "root", ["prof"], said("sys", "system", [""], None, metadata=HIDDEN)),
        node("prof", "sys", ["ctx"], said("prof", "user", None, None, content=PROFILE, metadata=HIDDEN)),
        node(
            "ctx",
            "prof",
            ["u1"],
            said(
                "ctx",
                "assistant",
                None,
                T0,
                content={"content_type": "model_editable_context", "model_set_context": SAVED, "repository": None},
            ),
        ),
        node(
            "u1",
            "ctx",
            ["a1", "a2"],
            said(
                "u1",
                "user",
                ["I moved to Lisbon", IMAGE],
                T0 + 1,
                "multimodal_text",
                metadata={
                    "attachments": [
                        {"name": "x.png", "mime_type": "image/png"},
                        {"name": "cv.pdf", "mime_type": "application/pdf"},
                    ]
                },
            ),
        ),
        node("a1", "u1", [], said("a1", "assistant", ["A first answer, thrown away"], T0 + 2)),
        node("a2", "u1", ["th"], said("a2", "assistant", ["Congratulations!"], T0 + 60)),
        node(
            "th",
            "a2",
            ["bio"],
            said(
                "th", "assistant", None, T0 + 61, content={"content_type": "thoughts", "thoughts": [{"summary": "x"}]}
            ),
        ),
        node("bio", "th", ["tool"], said("bio", "assistant", ["User moved to Lisbon."], T0 + 62, recipient="bio")),
        node("tool", "bio", ["run"], said("tool", "tool", ["Model set context updated."], T0 + 63, name="bio")),
        node(
            "run",
            "tool",
            ["u2"],
            said(
                "run",
                "assistant",
                None,
                T0 + 64,
                content={"content_type": "code", "language": "json", "text": "{}"},
                recipient="web.run",
            ),
        ),
        node(
            "u2",
            "run",
            ["a3"],
            said(
                "u2",
                "user",
                [
                    {"content_type": "audio_transcription", "text": "I also have a cat called Miso", "direction": "in"},
                    {"content_type": "real_time_user_audio_video_asset_pointer"},
                ],
                None,
                "multimodal_text",
            ),
        ),
        node("a3", "u2", ["e"], said("a3", "assistant", ["Hello ", "Miso"], T0 + 70)),
        node("e", "a3", ["web"], said("e", "assistant", [""], T0 + 71)),
        node("web", "e", [], said("web", "tool", None, T0 + 72, content=PAGE)),
    ]
    return {
        "id": "68a1c2d3-0000-8000-9000-000000000001", "conversation_id": "68a1c2d3-0000-8000-9000-000000000001",
        "title": "Moving to Lisbon", "create_time": T0, "update_time": T0 + 100, "current_node": "web",
        "mapping": {each["id"]: each for each in messages}, "moderation_results": [], "is_do_not_remember": False,
        "default_model_slug": "gpt-5", "gizmo_id": None, "is_archived": False, "safe_urls": [],
    }  # fmt: skip


def plain_chatgpt(id: int, texts: list[str], begin: float) -> dict[str, Any]:
    """A conversation of user and assistant by turns, a minute between messages."""
    names = ["root", *(f"m{id}-{n}" for n in range(len(texts)))]
    mapping = {"root": node("root", None, names[1:2], None)}
    for n, text in enumerate(texts):
        message = said(names[n + 1], ("user", "assistant")[n % 2], [text], begin + 60 * n)
        mapping[names[n + 1]] = node(names[n + 1], names[n], names[n + 2 : n + 3], message)
    return {
        "id": f"68a1c2d3-0000-8000-9000-{id:012d}", "conversation_id": f"68a1c2d3-0000-8000-9000-{id:012d}",
        "title": f"Talk {id}", "create_time": begin, "update_time": begin + 60 * len(texts),
        "current_node": names[-1], "mapping": mapping,
    }  # fmt: skip


ZEROS = "00000000-0000-4000-8000-000000000000"


def block(text: str) -> dict[str, Any]:
    return {
        "type": "text",
        "text": text,
        "citations": [],
        "start_timestamp": None,
        "stop_timestamp": None,
        "flags": None,
    }


def turn(id: str, sender: str, content: list[Any], at: str, parent: str | None = None, **more: Any) -> dict[str, Any]:
    text = "".join(each.get("text", "") for each in content if isinstance(each, dict))
    found = {"uuid": id, "text": text, "content": content, "sender": sender, "created_at": at, "updated_at": at}
    return {**found, "attachments": [], "files": [], **({"parent_message_uuid": parent} if parent else {}), **more}


def claude_conversation() -> dict[str, Any]:
    """An edited question, thoughts, a tool, a pasted text, an attached file."""
    paste = {"file_name": "", "file_size": 40, "file_type": "txt", "extracted_content": "I work at a bakery in Porto."}
    file = {"file_name": "cv.pdf", "file_size": 40, "file_type": "pdf", "extracted_content": "the whole file"}
    flat = "thoughts\n```\nThis block is not supported on your current device yet.\n```\nThe answer"
    tools = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "tool_use", "name": "search", "input": {}},
        block("The answer"),
    ]
    return {
        "uuid": "0198aaaa-0000-7000-8000-000000000001", "name": "Bread", "summary": "",
        "created_at": "2025-06-01T10:00:00.000000Z", "updated_at": "2025-06-01T11:00:00.000000Z",
        "account": {"uuid": "00000000-0000-4000-8000-0000000000aa"},
        "chat_messages": [
            turn("h0", "human", [block("A question that was edited")], "2025-06-01T10:00:00.000000Z", ZEROS),
            turn("x0", "assistant", [block("Its answer")], "2025-06-01T10:00:01.000000Z", "h0"),
            turn("h1", "human", [], "2025-06-01T10:05:00.000000Z", ZEROS, attachments=[paste, file]),
            turn("a1", "assistant", tools, "2025-06-01T10:05:10.000000Z", "h1", text=flat),
            turn("h2", "human", [block("")], "2025-06-01T10:06:00.000000Z", "a1", files=[{"file_name": "photo.jpg"}]),
            turn("a2", "assistant", [block("Anything else?")], "2025-06-01T10:06:10.000000Z", "h2"),
        ],
    }  # fmt: skip


CLAUDE_MEMORY: dict[str, Any] = {
    "conversations_memory": "**Work context**\n\nAlex is a backend engineer.\nAlex works in Berlin.\n\n"
    "## Personal\n\n- Plays the cello\n- Has two cats,\n  Miso and Tofu\n",
    "project_memories": {"0198aaaa-0000-7000-8000-000000000002": "The project uses Postgres 16."},
    "memory_files": [
        {"path": "/profile.md", "content": "- Prefers metric units", "updated_at": "2026-01-02T03:04:05.000000Z"}
    ],
    "account_uuid": "00000000-0000-4000-8000-0000000000aa",
}
PROJECT: dict[str, Any] = {
    "uuid": "0198aaaa-0000-7000-8000-000000000002", "name": "Shop", "description": "", "prompt_template": "Be brief",
    "docs": [{"uuid": "d", "filename": "a.md", "content": "text"}], "created_at": "2025-06-01T10:00:00Z",
}  # fmt: skip
