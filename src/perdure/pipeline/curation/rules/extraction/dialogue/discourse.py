"""What is known at a point of the conversation: who was mentioned, what it is about, what has been asked."""

from __future__ import annotations

from dataclasses import dataclass, field

from perdure.pipeline import lexicon


@dataclass(slots=True)
class Draft:
    """A fact while its conversation is still being read: a later message may replace it."""

    text: str
    sources: tuple[int, ...]
    rule: str
    confidence: float
    hedged: bool = False
    forget: bool = False
    procedural: bool = False
    episodic: bool = False
    language: str = ""
    """Of a request to forget whose matter is in the user's words, not in English."""
    corrects: bool = False
    """Its sentence expressly takes back what was said before it."""


@dataclass(slots=True)
class Discourse:
    """The state that reading a conversation carries from clause to clause; texts are in the third person."""

    who: str = "User"
    person: str = ""
    gender: str = ""
    group: str = ""
    met: int = 0
    """Messages since the person, or the group, was spoken of: 0 in the same, 2 for any more than one."""
    thing: str = ""
    subject: str = ""
    """The thing of which this message told something last: what "it" means."""
    of_another: bool = False
    """The last clause of this message that has a subject told of another person: one without is not the user's."""
    of_being: bool = False
    """The last clause of this message told of another person or an animal: a bare noun behind it is not the user's."""
    has_begun: bool = False
    """A clause of this message was read."""
    unowned: list[str] = field(default_factory=list)
    """Clauses of this message that tell of something of which was not said whose it is."""
    own: bool = False
    """The speaker has told something of himself: what follows is taken as about him more readily."""
    about_self: bool = False
    """The message being read says I, my or we."""
    asks: bool = False
    """The message being read holds a question or a request."""
    commanded: bool = False
    """The message before was a mere question or request: a short follow-up belongs to it."""
    play: bool = False
    """A game, a joke or a story is being played with the assistant: nothing is told of the speaker's life."""
    task: bool = False
    """The conversation is about a text, a story or a quiz: what is said belongs to that."""
    language: str = ""
    """The foreign language of the conversation so far, "" for English."""
    mentioned: tuple[int, str] = (-1, "")
    """What a sentence said was told before ("I should never have told you the pin"), with the message's position."""
    names: dict[str, str] = field(default_factory=dict)
    """Lower-case name to how the person is called in facts ("User's sister Ana")."""
    people: set[str] = field(default_factory=set)
    """Names, in lower case, of which something was told that people and pets do."""
    kin: dict[str, str] = field(default_factory=dict)
    """Relation ("sister") to the latest name heard for it."""
    drafts: list[Draft] = field(default_factory=list)
    assistant: str = ""
    """What the assistant said last, cleaned; "" when the user spoke since."""
    assistant_at: int = -1
    """Its position among the messages, -1 if it is context."""

    def next_session(self) -> Discourse:
        """The state in which the same speaker's next conversation begins: who is who stays known, the rest is over."""
        return Discourse(
            own=self.own,
            language=self.language,
            names=self.names,
            kin=self.kin,
            people=self.people,
            drafts=[draft for draft in self.drafts if any(at >= 0 for at in draft.sources)],
        )

    def begin_message(self, *, goes_on: bool) -> None:
        """What "it" meant is over, unless the message goes on with it; whom "she" meant fades."""
        self.subject = self.thing if goes_on else ""
        self.of_another = self.of_being = self.has_begun = False
        self.unowned = []
        self.met = min(self.met + 1, 2)

    def is_owned(self, text: str) -> bool:
        """Whether a sentence of this message begins with no clause of which nobody knows whose matter it tells."""
        return not any(text.startswith(clause) for clause in self.unowned)

    def meet(self, display: str, gender: str) -> None:
        """Remember the person spoken of last."""
        self.met = 0
        if gender == "p":
            self.group = display
        else:
            self.person, self.gender = display, gender

    def call(self, name: str, display: str) -> None:
        """Remember a name and how its bearer is to be called."""
        self.names[name.lower()] = display


def kin_gender(noun: str) -> str:
    """m, f, n or p (plural) of a kinship noun, "" if it is none."""
    return lexicon.pairs("kin.tsv").get(noun.lower(), "")
