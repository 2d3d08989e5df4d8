"""How many standing instructions and preferences are found in BEAM's chats, and how many messages are marked for it.

    python benchmarks/directives.py --beam DIR

DIR holds a folder for each chat with `chat.json` and `probing_questions.json`. What should be found are the messages
of the user that the questions of type `instruction_following` and `preference_following` name as their source; what
should stay small is the number of marked messages, since they are put before answers that did not ask for them.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from pathlib import Path

from perdure.pipeline.retrieval.directives import directive, preference

SIDES: tuple[tuple[str, str, Callable[[str], str | None]], ...] = (
    ("instructions", "instruction_following", directive),
    ("preferences", "preference_following", preference),
)
_MARK = re.compile(r"\s*->->[\s\d,.]*$")
"""The set's own numbering at the end of a message."""


def user_messages(chat: Path) -> dict[int, str]:
    """The texts of the user's messages by their number."""
    batches = json.loads((chat / "chat.json").read_text(encoding="utf-8"))
    turns = (message for batch in batches for turn in batch["turns"] for message in turn)
    return {message["id"]: _MARK.sub("", message["content"]) for message in turns if message["role"] == "user"}


def gold(chat: Path, kind: str) -> set[int]:
    """The numbers of the messages that the questions of a kind stand on."""
    questions = json.loads((chat / "probing_questions.json").read_text(encoding="utf-8"))
    return {number for question in questions[kind] for number in question["source_chat_ids"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beam", type=Path, required=True, metavar="DIR")
    arguments = parser.parse_args()
    chats = sorted((path for path in arguments.beam.iterdir() if (path / "chat.json").is_file()), key=lambda p: p.name)
    totals = {side: [0, 0, 0] for side, _, _ in SIDES}
    print(f"{'chat':>6}{'messages':>10}" + "".join(f"{side:>14}{'gold':>8}" for side, _, _ in SIDES))
    for chat in chats:
        messages = user_messages(chat)
        row = f"{chat.name:>6}{len(messages):>10}"
        for side, kind, find in SIDES:
            marked = {number for number, text in messages.items() if find(text) is not None}
            wanted = gold(chat, kind) & messages.keys()
            counted = (len(marked), len(wanted & marked), len(wanted))
            totals[side] = [sum(pair) for pair in zip(totals[side], counted, strict=True)]
            row += f"{counted[0]:>14}{f'{counted[1]}/{counted[2]}':>8}"
        print(row)
    for side, (marked_all, found, wanted_all) in totals.items():
        share = found / wanted_all if wanted_all else 0.0
        print(f"{side}: {share:.0%} of {wanted_all} gold messages marked, {marked_all / max(1, len(chats)):.1f} a chat")


if __name__ == "__main__":
    main()
