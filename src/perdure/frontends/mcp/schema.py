"""JSON Schemas of tools' arguments and answers, as short as they can be: a client sends them to its model."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema


class Arguments(BaseModel):
    """Arguments of a tool; unknown ones are rejected, which catches typos and scopes that a model makes up."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ToolAnswer(BaseModel):
    """Answer of a tool; fields without a value are left out."""

    model_config = ConfigDict(frozen=True)

    def plain(self) -> dict[str, Any]:
        """Return the answer as plain JSON values."""
        return self.model_dump(mode="json", exclude_none=True)

    def as_text(self) -> str:
        """Return the answer as text, for clients that do not read structured content."""
        return json.dumps(self.plain(), ensure_ascii=False, separators=(",", ":"))


class _Compact(GenerateJsonSchema):
    """Leaves out titles, the null of optional fields, and defaults of null."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        found = super().default_schema(schema)
        if found.get("default", 0) is None:
            del found["default"]
        return found

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema of a model, with nested models written out where they are used."""
    found = model.model_json_schema(schema_generator=_Compact)
    parts = found.pop("$defs", {})
    resolved = _resolved(found, parts)
    assert isinstance(resolved, dict), "the schema of a model is an object"
    return resolved


def _resolved(value: Any, parts: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_resolved(each, parts) for each in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        return _resolved(parts[value["$ref"].rpartition("/")[2]], parts)
    is_model = value.get("type") == "object"
    left_out = ("title", "description") if is_model else ()
    return {key: _resolved(each, parts) for key, each in value.items() if key not in left_out or isinstance(each, dict)}
