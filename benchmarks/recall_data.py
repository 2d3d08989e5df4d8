"""LoCoMo, BEAM and LongMemEval read into one form: conversations of turns, and questions with the turns that answer.

Each reader takes the path of the data as its authors publish it and corrects what is known to be wrong with it:

- LoCoMo (arXiv 2402.17753), `locomo10.json`: ids of evidence such as "D8:6; D9:17", "D:11:26" and "D30:05" are read,
  those that name no turn are dropped; a picture counts by its caption. Category 1 has 3.1 pieces of evidence a question
  and category 4 1.1, so 1 is multi-hop and 4 single-hop, whatever some vendors print.
- BEAM (arXiv 2510.27246), a folder with a folder for each chat: user messages end in a mark of the generator, such as
  " ->-> 1,2", " ->-> 2,N/A" or " ->-> 5,14)", which is cut off, also where the assistant repeats it;
  `chat_trunecated.json` (so spelt there) is preferred; only the first message of a batch has a date.
- LongMemEval (arXiv 2410.10813), `longmemeval_s.json` and its like: each question has a history of its own, and those
  whose id ends in `_abs` cannot be answered.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Turn:
    """One message; `at` is an aware UTC datetime, or None where the data set gives no time."""

    id: str
    speaker: str | None
    role: str
    text: str
    at: datetime | None
    session: str


@dataclass(frozen=True, slots=True)
class Observation:
    """A fact that the data set ships, and the ids of the turns that it came from."""

    text: str
    turns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked, and the ids of the turns that hold the answer: none where there is no evidence to find."""

    text: str
    category: str
    gold: tuple[str, ...] = ()
    pair: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    """Turns of the original and the updated value, of two statements, or of two events."""
    groups: tuple[tuple[str, ...], ...] = ()
    """Turns of each event that is to be put in order, in the right order."""
    abstain: bool = False
    """Whether the conversation does not tell the answer."""
    asked_at: datetime | None = None
    answer: str = ""
    rubric: tuple[str, ...] = ()
    """What a good answer says, where the data set lists it."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """What was said, in order, and what is asked of it."""

    id: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]
    observations: tuple[Observation, ...] = ()


NOT_TOLD = "The conversation does not tell."
"""The right answer where the data set has none to give."""

LOCOMO_CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}

_EVIDENCE = re.compile(r"D\s*:?\s*(\d+)\s*:\s*(\d+)")
_SESSION = re.compile(r"session_(\d+)")
_MARK = re.compile(r"\s*->->[\d,\sN/A)]*$")
_PAIRS = (
    ("original_info", "updated_info"),
    ("first_statement", "second_statement"),
    ("first_event", "second_event"),
)
_MINUTE = timedelta(minutes=1)
"""How far apart the turns of a session are put: the data sets date sessions only."""


def read_locomo(path: Path) -> list[Conversation]:
    """The conversations of a LoCoMo file; questions without evidence that can be found have no `gold`."""
    return [_locomo_conversation(sample) for sample in _json(path)]


def _locomo_conversation(sample: Mapping[str, Any]) -> Conversation:
    said = sample["conversation"]
    numbers = sorted(int(found[1]) for found in map(_SESSION.fullmatch, said) if found)
    turns: list[Turn] = []
    for number in numbers:
        start = _moment(said[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y")
        turns += [
            Turn(
                id=evidence_ids(turn["dia_id"])[0],
                speaker=turn["speaker"],
                role="user",  # two people talk to each other: neither is an assistant
                text=_with_caption(turn),
                at=start + position * _MINUTE,
                session=str(number),
            )
            for position, turn in enumerate(said[f"session_{number}"])
        ]
    known = {turn.id for turn in turns}
    observations = [
        Observation(text, tuple(id for id in evidence_ids(evidence) if id in known))
        for session in sample.get("observation", {}).values()
        for told in session.values()
        for text, evidence in told
    ]
    return Conversation(
        sample["sample_id"],
        _written(turns),
        tuple(_locomo_question(each, known) for each in sample["qa"]),
        tuple(each for each in observations if each.turns and each.text.strip()),
    )


def _locomo_question(each: Mapping[str, Any], known: set[str]) -> Question:
    category = LOCOMO_CATEGORIES[each["category"]]
    adversarial = category == "adversarial"
    return Question(
        text=each["question"],
        category=category,
        gold=tuple(id for id in evidence_ids(each["evidence"]) if id in known),
        abstain=adversarial,
        answer=NOT_TOLD if adversarial else str(each["answer"]),
    )


def evidence_ids(evidence: str | Iterable[str]) -> tuple[str, ...]:
    """Ids of LoCoMo turns such as "D8:6" in whatever form they are written, each once, in order."""
    texts = [evidence] if isinstance(evidence, str) else evidence
    found = (f"D{int(session)}:{int(turn)}" for text in texts for session, turn in _EVIDENCE.findall(text))
    return tuple(dict.fromkeys(found))


def _with_caption(turn: Mapping[str, Any]) -> str:
    caption = turn.get("blip_caption")
    return f"{turn['text']} [image: {caption}]".strip() if caption else str(turn["text"])


def read_beam(path: Path) -> list[Conversation]:
    """The chats in a BEAM folder such as `chats/100K`, by their numbers; those without messages are left out."""
    folders = [folder for folder in path.iterdir() if folder.is_dir() and _beam_chat(folder) is not None]
    return [_beam_conversation(folder) for folder in sorted(folders, key=lambda each: (len(each.name), each.name))]


def _beam_chat(folder: Path) -> Path | None:
    return next((file for name in ("chat_trunecated.json", "chat.json") if (file := folder / name).is_file()), None)


def _beam_conversation(folder: Path) -> Conversation:
    chat = _beam_chat(folder)
    assert chat is not None, f"{folder} holds no chat"
    turns: list[Turn] = []
    at: datetime | None = None
    for number, batch in enumerate(_json(chat), 1):
        anchor = batch.get("time_anchor")
        for message in (message for group in batch["turns"] for message in group):
            anchor, at = None, _next(at, message.get("time_anchor") or anchor)
            turns.append(
                Turn(
                    id=str(message["id"]),
                    speaker=None,
                    role=message["role"],
                    text=_MARK.sub("", message["content"]),
                    at=at,
                    session=str(number),
                )
            )
    probing = folder / "probing_questions.json"
    file = probing if probing.is_file() else folder / "probing_questions" / "probing_questions.json"
    known = {turn.id for turn in turns}
    questions = [_beam_question(each, kind, known) for kind, all in _json(file).items() for each in all]
    return Conversation(folder.name, _written(turns), tuple(questions))


def _next(last: datetime | None, anchor: str | None) -> datetime | None:
    """The time of a message: a minute after the last, or what its anchor says if that is later: it never runs back."""
    following = None if last is None else last + _MINUTE
    if anchor is None:
        return following
    told = _moment(anchor, "%B-%d-%Y")
    return told if following is None else max(told, following)


def _beam_question(each: Mapping[str, Any], kind: str, known: set[str]) -> Question:
    sources = each.get("source_chat_ids") or ()
    pair: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    groups: tuple[tuple[str, ...], ...] = ()
    if isinstance(sources, Mapping):
        names = next(names for names in _PAIRS if names[0] in sources)
        first, second = (_ids([sources[name]], known) for name in names)
        pair = (first, second) if first and second else None
        sources = list(sources.values())
    elif kind == "event_ordering":
        groups = tuple(dict.fromkeys(ids for source in sources if (ids := _ids([source], known))))
    answers = (each.get(name) for name in ("answer", "ideal_response", "ideal_answer", "ideal_summary"))
    return Question(
        text=each["question"],
        category=kind,
        gold=_ids(sources, known),
        pair=pair,
        groups=groups,
        abstain=kind == "abstention",
        answer=str(next((answer for answer in answers if answer), "")),
        rubric=tuple(map(str, each.get("rubric") or ())),
    )


def _ids(sources: Iterable[Any], known: set[str]) -> tuple[str, ...]:
    """The ids in whatever nesting of lists they come, each once, in order; those of no message are dropped."""
    found: list[str] = []
    for source in sources:
        found += _ids(source, known) if isinstance(source, list) else [str(source)]
    return tuple(dict.fromkeys(id for id in found if id in known))


def read_longmemeval(path: Path) -> list[Conversation]:
    """A conversation for each question of a LongMemEval file, its sessions in the order of their dates."""
    return [_longmemeval_conversation(each) for each in _json(path)]


def _longmemeval_conversation(each: Mapping[str, Any]) -> Conversation:
    sessions = zip(each["haystack_session_ids"], each["haystack_dates"], each["haystack_sessions"], strict=True)
    dated = sorted(((_longmemeval_moment(date), id, said) for id, date, said in sessions), key=lambda one: one[0])
    turns: list[Turn] = []
    gold: list[str] = []
    for place, (start, id, said) in enumerate(dated):
        for position, message in enumerate(said):
            turn = Turn(
                id=f"{place}:{id}:{position}",  # the same session may stand in a history twice
                speaker=None,
                role=message["role"],
                text=message["content"],
                at=start + position * _MINUTE,
                session=id,
            )
            turns.append(turn)
            if message.get("has_answer"):
                gold.append(turn.id)
    abstain = each["question_id"].endswith("_abs")
    question = Question(
        text=each["question"],
        category="abstention" if abstain else each["question_type"],
        gold=() if abstain else tuple(gold),
        abstain=abstain,
        asked_at=_longmemeval_moment(each["question_date"]),
        answer=str(each["answer"]),
    )
    return Conversation(each["question_id"], _written(turns), (question,))


def _longmemeval_moment(text: str) -> datetime:
    return _moment(re.sub(r"\s*\(\w+\)\s*", " ", text), "%Y/%m/%d %H:%M")


def by_sessions(conversation: Conversation) -> Iterator[list[Turn]]:
    """The turns of one session after the other."""
    part: list[Turn] = []
    for turn in conversation.turns:
        if part and part[-1].session != turn.session:
            yield part
            part = []
        part.append(turn)
    if part:
        yield part


def _written(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """The turns with something in them, without spaces around."""
    return tuple(replace(turn, text=turn.text.strip()) for turn in turns if turn.text.strip())


def _moment(text: str, form: str) -> datetime:
    return datetime.strptime(text.strip(), form).replace(tzinfo=UTC)


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
