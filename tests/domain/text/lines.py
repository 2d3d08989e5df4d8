"""Lines as people write them, for the golden outputs of the text toolkit: each opening with each of its endings."""

from __future__ import annotations

_OPENINGS = (
    "I moved to Graz", "Ana was the lead of fundraising", "The clinic's lease runs", "My café in Zürich was open",
    "We'll fly to São Paulo", "Bob's been at Acme Inc.", "The launch was postponed", "User's rent goes to 1,020 euros",
    "I've studied Portuguese", "Łukasz and Øystein met", "She takes 2.5 mg of bisoprolol", "They had two dogs",
)  # fmt: skip
_TIMES = (
    "on 7 May 2023", "May 7th, 2023", "since 2019", "until Q2", "in the first quarter of 2024", "last month",
    "two years ago", "a couple of weeks ago", "yesterday", "next Friday", "in summer 2022", "from March to June",
    "until 30 April", "on 2024-02-29", "on 12/03/2021", "at half past six", "every Tuesday at 7pm",
    "for the last three months", "in H1 2025", "by the end of the year",
)  # fmt: skip
_WORDS = (
    "He's re-reading the naïve author's notes; they're well-written, aren't they?",
    "Running, swimming and cycling were easier than hoping, tried-and-true studies or flies.",
    "The boxes, wishes, buses, classes, heroes and skies of the Smiths' kitchens",
    "snake_case and kebab-case names, e.g. user_id, c++, v2.0 and m6i.large",
    "Überraschung: die Straße führt über die Brücke nach Łódź.",
    "El niño comió piñas en mañanas frías; l'été, qu'il aime, est fini.",
    "我住在北京，喜歡喝茶。 ขอบคุณครับ 東京タワーへ行きました",
    "MOTs = Gethin & co, bodywork = me @ 9 o'clock",
    "generalization, relational, conditional, happiness, adjustable, replacement, probate, controlling, sky, dying",
    "I bought, brought, gave, went, saw and left; wedding news lives on.",
)  # fmt: skip

LINES = (*(f"{opening} {time}." for opening in _OPENINGS for time in _TIMES), *_WORDS)
