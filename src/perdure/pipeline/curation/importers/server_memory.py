"""The knowledge graph of MCP's own `server-memory`: its lines, and the memories that say the same.

    {"type": "entity", "name": "Ana", "entityType": "person", "observations": ["plays the cello"]}
    {"type": "relation", "from": "Ana", "to": "Apollo", "relationType": "leads"}

(npm `@modelcontextprotocol/server-memory` 2026.8.31, the file at MEMORY_FILE_PATH.) An entity, each of its observations
and each relation is one memory. Its text is a sentence that a search finds and a model understands; its metadata keep
what was given, letter by letter, so that the graph comes back as it was. The MCP profile `knowledge-graph` writes the
same memories.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from perdure.pipeline.curation.importers import records

SOURCE: Final = "import:server-memory"
PART: Final = "node_part"
"""The metadata key that says what a memory is in the graph: an entity, an observation or a relation."""
ENTITY, OBSERVATION, RELATION = "entity", "observation", "relation"


def entity_memory(name: str, kind: str) -> tuple[str, dict[str, Any]]:
    """Return the text and the metadata of an entity."""
    mention = {"name": name, "type": kind} if kind else {"name": name}
    return f"{name} ({kind})" if kind else name, {PART: ENTITY, "node": name, "node_type": kind, "entities": [mention]}


def observation_memory(name: str, content: str) -> tuple[str, dict[str, Any]]:
    """Return the text and the metadata of an observation; the text names its entity."""
    text = content if name.casefold() in content.casefold() else f"{name}: {content}"
    return text, {PART: OBSERVATION, "node": name, "observation": content, "entities": [{"name": name}]}


def relation_memory(source: str, relation: str, target: str) -> tuple[str, dict[str, Any]]:
    """Return the text and the metadata of a relation."""
    metadata = {PART: RELATION, "node": source, "node_relation": relation, "node_target": target}
    return f"{source} {relation.replace('_', ' ')} {target}", {
        **metadata,
        "entities": [{"name": source}, {"name": target}],
    }


def is_server_memory(value: Any) -> bool:
    """Whether an object is a line of the graph's file."""
    if not isinstance(value, Mapping):
        return False
    if value.get("type") == ENTITY:
        return {"name", "entityType", "observations"} <= value.keys()
    return value.get("type") == RELATION and {"from", "to", "relationType"} <= value.keys()


class ServerMemoryReader(records.Reader):
    """Reads lines of the graph's file."""

    def read(self, value: Any, where: str) -> Iterator[records.Found]:
        """One line as its memories."""
        if not is_server_memory(value):
            yield records.Damaged("it is neither an entity nor a relation of server-memory", where)
            return
        given = (value["from"], value["relationType"], value["to"]) if value["type"] == RELATION else (value["name"],)
        if not all(isinstance(each, str) and each.strip() for each in given):
            yield records.Damaged("a name is no text, or empty", where)
        elif value["type"] == RELATION:
            yield _fact(relation_memory(*given), where)
        elif not isinstance(value["entityType"], str) or not isinstance(value["observations"], list):
            yield records.Damaged("entityType must be text, and observations a list", where)
        else:
            yield _fact(entity_memory(value["name"], value["entityType"]), where)
            for content in value["observations"]:
                if isinstance(content, str) and content.strip():
                    yield _fact(observation_memory(value["name"], content), where)
                else:
                    yield records.Damaged("an observation is no text, or empty", where)


def _fact(memory: tuple[str, dict[str, Any]], where: str) -> records.Found:
    text, metadata = memory
    names = [metadata[key] for key in (PART, "node", "node_type", "observation", "node_relation", "node_target")
             if key in metadata]  # fmt: skip
    line = {"id": records.lasting_id(None, "server-memory", *names), "memory": text, "source": SOURCE}
    return records.ForeignFact(where, {**line, "metadata": metadata})
