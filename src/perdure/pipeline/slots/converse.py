"""Converse verbs: "Marek sold User the tent" and "User bought the tent from Marek" read alike."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from perdure.pipeline.lexicon import lines
from perdure.pipeline.slots.lexis import concept_of, relations
from perdure.pipeline.slots.reading import USER, Chunk, Party, Reading, Slot
from perdure.pipeline.slots.stems import stem


@cache
def _converses() -> dict[str, str]:
    """Stem of each verb of the giving side to the verb of the taking side."""
    table: dict[str, str] = {}
    for line in lines("reconcile_converses.tsv"):
        giving, _, taking = line.partition("\t")
        table[stem(giving)] = concept_of(taking)
    return table


def turn_round(reading: Reading, giving: str) -> Reading | None:
    """The reading from the taking side, where the verb it was said with has one and says who takes; else None."""
    taking = _converses().get(giving)
    if taking is None or reading.topic:
        return None
    for place, chunk in enumerate(reading.chunks):
        taker = _taker(chunk, first=place == 0)
        if taker is None:
            continue
        giver = _as_concepts(reading.party)
        if not giver:
            return None
        rest = [*reading.chunks[:place], *reading.chunks[place + 1 :]]
        kept = tuple(concept for concept in chunk.concepts if concept not in taker[1]) if not chunk.lead else ()
        if kept:
            rest.insert(0, replace(chunk, concepts=kept, names=chunk.names - taker[1]))
        source = Chunk("from", giver, frozenset(giver) - {USER})
        concepts = (reading.concepts - {reading.verb} - taker[1]) | {taking} | set(giver)
        return replace(
            reading,
            party=taker[0],
            verb=taking,
            chunks=(*rest, source),
            concepts=concepts,
            names=(reading.names | source.names) - taker[1],
            slots=(),
            mood=replace(reading.mood, ended=False),
        )
    return None


def by_relation(reading: Reading) -> Reading | None:
    """ "User reports to Paula" as a statement about the user's boss; "is married to Ana" as one about the spouse."""
    if reading.party.kind != "user" or reading.topic or not reading.chunks:
        return None
    chunk = reading.chunks[0]
    relation = {"marri": "spouse"}.get(reading.verb) or relations().get((reading.verb,))
    if relation is None or not chunk.names or set(chunk.concepts) != chunk.names:
        return None
    slot = Slot("name", chunk.concepts, chunk.values, names=chunk.names, start=chunk.start, end=chunk.end)
    told = replace(chunk, lead="")
    return replace(
        reading,
        party=Party("relative", relation),
        verb="be",
        chunks=(told, *reading.chunks[1:]),
        slots=(slot,),
        concepts=reading.concepts - {reading.verb},
    )


def _taker(chunk: Chunk, *, first: bool) -> tuple[Party, frozenset[str]] | None:
    """Who a phrase names as the taking side: after "to", or as the first of two objects."""
    if chunk.lead not in ("to", "") or (not chunk.lead and not first) or not chunk.concepts:
        return None
    if chunk.concepts[0] == USER:
        return Party("user"), frozenset({USER})
    names = [concept for concept in chunk.concepts if concept in chunk.names]
    if chunk.lead == "to" and names and len(names) == len(chunk.concepts):
        return Party("named", name=" ".join(names)), frozenset(names)
    if not chunk.lead and names and chunk.concepts[0] in chunk.names and len(chunk.concepts) > 1:
        return Party("named", name=chunk.concepts[0]), frozenset({chunk.concepts[0]})
    return None


def _as_concepts(party: Party) -> tuple[str, ...]:
    if party.kind == "user":
        return (USER,)
    return tuple(party.name.split()) or ((party.relation,) if party.relation else ())
