"""What Azure AI Search takes as the definition of an index; strict."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_NAME = re.compile(r"[a-z0-9](?!.*--)[a-z0-9-]{0,126}[a-z0-9]")
_FIELD = re.compile(r"(?!azureSearch)[A-Za-z][A-Za-z0-9_]{0,127}")
_TYPES = ("Edm.String", "Edm.Int64", "Collection(Edm.String)", "Collection(Edm.Single)")
_FLAGS = ("key", "retrievable", "searchable", "filterable", "sortable", "facetable")
_DEFAULTS = {"retrievable": True, "searchable": True, "filterable": True, "sortable": True, "facetable": True}


class BadIndex(Exception):
    """What the service refuses, in its words."""


def check_index(definition: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The fields by name, with what they are by default; BadIndex names what is wrong."""
    unknown = set(definition) - {"name", "description", "fields", "vectorSearch", "similarity"}
    if unknown:
        raise BadIndex(f"The property '{unknown.pop()}' does not exist on type 'search.index', or is not served here.")
    if not isinstance(definition.get("name"), str) or not _NAME.fullmatch(definition["name"]):
        raise BadIndex(
            "Index name must only contain lowercase letters, digits or dashes, cannot start or end with dashes and is "
            "limited to 128 characters."
        )
    if len(definition.get("description", "")) > 4_000:
        raise BadIndex("The description is limited to 4000 characters.")
    profiles = _profiles(definition.get("vectorSearch", {}))
    fields = {each["name"]: _checked(each, profiles) for each in definition["fields"]}
    if len(fields) != len(definition["fields"]) or len(fields) > 1_000:
        raise BadIndex("Field names must be unique, and there may be 1000.")
    if sum(bool(each.get("key")) for each in fields.values()) != 1:
        raise BadIndex("Exactly one field of type Edm.String must be the key.")
    return fields


def _profiles(vector_search: Mapping[str, Any]) -> set[str]:
    if set(vector_search) - {"profiles", "algorithms"}:
        raise BadIndex("vectorSearch: unknown property.")
    algorithms = set()
    for each in vector_search.get("algorithms", []):
        if each.get("kind") not in ("exhaustiveKnn", "hnsw") or set(each) - {
            "name", "kind", "exhaustiveKnnParameters", "hnswParameters",
        }:  # fmt: skip
            raise BadIndex("vectorSearch.algorithms: unknown kind or property.")
        if each[f"{each['kind']}Parameters"].get("metric") not in ("cosine", "euclidean", "dotProduct"):
            raise BadIndex("vectorSearch.algorithms: unknown metric.")
        algorithms.add(each["name"])
    for profile in vector_search.get("profiles", []):
        if set(profile) != {"name", "algorithm"} or profile["algorithm"] not in algorithms:
            raise BadIndex(f"vectorSearch.profiles: '{profile.get('algorithm')}' is no algorithm of this index.")
    return {profile["name"] for profile in vector_search.get("profiles", [])}


def _checked(field: Mapping[str, Any], profiles: set[str]) -> dict[str, Any]:
    name, kind = field.get("name", ""), field.get("type")
    if not _FIELD.fullmatch(name):
        raise BadIndex(f"Invalid field name '{name}': letters, digits and underscores, beginning with a letter.")
    if kind not in _TYPES:
        raise BadIndex(f"The type '{kind}' of the field '{name}' is not known, or not served here.")
    unknown = set(field) - {"name", "type", "analyzer", "dimensions", "vectorSearchProfile", *_FLAGS}
    if unknown:
        raise BadIndex(f"The property '{unknown.pop()}' of the field '{name}' is not known, or not served here.")
    if kind == "Collection(Edm.Single)":
        if any(field.get(flag) for flag in ("filterable", "sortable", "facetable", "key")) or not field.get(
            "searchable"
        ):
            raise BadIndex(f"The vector field '{name}' must be searchable, and cannot be filtered, sorted or faceted.")
        if type(field.get("dimensions")) is not int or not 2 <= field["dimensions"] <= 4_096:
            raise BadIndex(f"The vector field '{name}' must have 2 to 4096 dimensions.")
        if field.get("vectorSearchProfile") not in profiles:
            raise BadIndex(f"The vector field '{name}' needs a profile of vectorSearch.")
        return {**field, "retrievable": field.get("retrievable", True)}
    if kind.startswith("Collection") and field.get("sortable", True):
        raise BadIndex(f"The collection '{name}' cannot be sortable.")
    if kind == "Edm.Int64" and field.get("searchable"):
        raise BadIndex(f"The field '{name}' of type Edm.Int64 cannot be searchable.")
    if "analyzer" in field and (not field.get("searchable", True) or field["analyzer"] != "whitespace"):
        raise BadIndex(f"The analyzer of the field '{name}' is not known here, or the field is not searchable.")
    if field.get("key") and kind != "Edm.String":
        raise BadIndex(f"The key '{name}' must be of type Edm.String.")
    return {**_DEFAULTS, **field}
