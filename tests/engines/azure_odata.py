"""The part of OData in which filters of Azure AI Search are written, by its syntax reference; strict.

https://learn.microsoft.com/azure/search/search-query-odata-syntax-reference; the rules for collections are those of
https://learn.microsoft.com/azure/search/search-query-troubleshoot-collection-filters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

Document = dict[str, Any]
Test = Callable[[Any], bool]

MOST_CLAUSES = 1_000
_LEXEMES = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_]+)?)|(?P<sign>[(),:/]))"
)
_RELATIONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    # A null is below every value: a filter that means no nulls must say so.
    "lt": lambda a, b: a is None or a < b,
    "le": lambda a, b: a is None or a <= b,
}


class BadFilter(Exception):
    """What the service refuses, in its words."""


def read_filter(text: str, fields: Mapping[str, Mapping[str, Any]]) -> Test:
    """The test that a filter means; `fields` are those of the index, by name."""
    reader = _Reader(text, fields)
    test = reader.either()
    if reader.here is not None:
        raise BadFilter(f"Invalid expression: Syntax error at position {reader.place} in '{text[:80]}'.")
    return test


class _Reader:
    def __init__(self, text: str, fields: Mapping[str, Mapping[str, Any]]) -> None:
        self._fields = fields
        self._lexemes: list[tuple[str, str]] = []
        place = 0
        while text[place:].strip():
            found = _LEXEMES.match(text, place)
            if found is None:
                raise BadFilter(f"Invalid expression: Syntax error at position {place} in '{text[:80]}'.")
            assert found.lastgroup
            self._lexemes.append((found.lastgroup, found.group(found.lastgroup)))
            place = found.end()
        self.place = 0
        self._clauses = 0

    @property
    def here(self) -> tuple[str, str] | None:
        return self._lexemes[self.place] if self.place < len(self._lexemes) else None

    def _next(self, *kinds: str) -> str:
        if self.here is None or self.here[0] not in kinds:
            raise BadFilter(f"Invalid expression: {' or '.join(kinds)} expected, found {self.here}.")
        self.place += 1
        return self._lexemes[self.place - 1][1]

    def _takes(self, value: str) -> bool:
        if self.here is not None and self.here[0] in ("name", "sign") and self.here[1] == value:
            self.place += 1
            return True
        return False

    def _must(self, value: str) -> None:
        if not self._takes(value):
            raise BadFilter(f"Invalid expression: '{value}' expected, found {self.here}.")

    # ------------------------------------------------------------------ expressions
    def either(self, variable: str | None = None, inside: str = "") -> Test:
        parts = [self.both(variable, inside)]
        while self._takes("or"):
            if inside == "all":
                raise BadFilter("Invalid lambda expression: 'or' is not supported inside of 'all'.")
            parts.append(self.both(variable, inside))
        return parts[0] if len(parts) == 1 else lambda value: any(part(value) for part in parts)

    def both(self, variable: str | None = None, inside: str = "") -> Test:
        parts = [self.single(variable, inside)]
        while self._takes("and"):
            if inside == "any":
                raise BadFilter("Invalid lambda expression: 'and' is not supported inside of 'any'.")
            parts.append(self.single(variable, inside))
        return parts[0] if len(parts) == 1 else lambda value: all(part(value) for part in parts)

    def single(self, variable: str | None, inside: str) -> Test:
        self._clauses += 1
        if self._clauses > MOST_CLAUSES:
            raise BadFilter("The filter expression has too many clauses.")
        negated = self._takes("not")
        if self._takes("("):
            part = self.either(variable, inside)
            self._must(")")
        elif self._takes("search.in"):
            if inside and negated != (inside == "all"):
                raise BadFilter("Invalid lambda expression: search.in in 'any', not search.in in 'all'.")
            part = self._search_in(variable)
        else:
            part = self._comparison(variable, inside)
        return (lambda value: not part(value)) if negated else part

    def _search_in(self, variable: str | None) -> Test:
        self._must("(")
        name = self._next("name")
        get = self._getter(name, variable, "Edm.String")
        self._must(",")
        values = _unquoted(self._next("text"))
        delimiters = " ,"
        if self._takes(","):
            delimiters = _unquoted(self._next("text"))
        self._must(")")
        wanted = set(re.split(f"[{re.escape(delimiters)}]", values))
        return lambda value: get(value) in wanted

    def _comparison(self, variable: str | None, inside: str) -> Test:
        name = self._next("name")
        if self._takes("/"):
            return self._collection(name, variable)
        operator = self._next("name")
        if operator not in ("eq", "ne", *_RELATIONS):
            raise BadFilter(f"Invalid expression: unknown operator '{operator}'.")
        if (inside == "any" and operator != "eq") or (inside == "all" and operator != "ne"):
            raise BadFilter("Invalid lambda expression: collections of strings take 'eq' in 'any' and 'ne' in 'all'.")
        kind, text = self.here or ("end", "")
        self._next("text", "number", "name")
        if kind == "text":
            get, operand = self._getter(name, variable, "Edm.String"), _unquoted(text)
        elif kind == "number":
            if not re.fullmatch(r"-?\d+", text) or not -(2**63) <= int(text) < 2**63:
                raise BadFilter(f"Invalid expression: the value {text} cannot be converted to Edm.Int64.")
            get, operand = self._getter(name, variable, "Edm.Int64"), int(text)
        elif text == "null" and operator in ("eq", "ne"):
            get, operand = self._getter(name, variable, "Edm.String", "Edm.Int64"), None
        else:
            raise BadFilter(f"Invalid expression: a constant expected, found '{text}'.")
        if operator in ("eq", "ne"):
            return lambda value: (get(value) == operand) == (operator == "eq")
        relation = _RELATIONS[operator]
        if operator in ("gt", "ge"):
            return lambda value: get(value) is not None and relation(get(value), operand)
        return lambda value: relation(get(value), operand)

    def _collection(self, name: str, variable: str | None) -> Test:
        if variable is not None:
            raise BadFilter("Invalid lambda expression: nested collections are not supported here.")
        get = self._getter(name, None, "Collection(Edm.String)")
        inside = self._next("name")
        if inside not in ("any", "all"):
            raise BadFilter(f"Invalid expression: 'any' or 'all' expected, found '{inside}'.")
        self._must("(")
        element = self._next("name")
        self._must(":")
        test = self.either(element, inside)
        self._must(")")
        joined = any if inside == "any" else all
        return lambda value: joined(test(each) for each in get(value) or ())

    def _getter(self, name: str, variable: str | None, *types: str) -> Callable[[Any], Any]:
        if variable is not None:
            if name != variable or "Edm.String" not in types:
                raise BadFilter(f"Invalid lambda expression: '{name}' is not the range variable '{variable}'.")
            return lambda value: value
        field = self._fields.get(name)
        if field is None:
            raise BadFilter(f"Invalid expression: Could not find a property named '{name}' on type 'search.document'.")
        if not field.get("filterable"):
            raise BadFilter(f"Invalid expression: '{name}' is not a filterable field.")
        if field["type"] not in types:
            raise BadFilter(f"Invalid expression: A binary operator with incompatible types was detected: '{name}'.")
        return lambda document: document.get(name)


def _unquoted(text: str) -> str:
    return text[1:-1].replace("''", "'")
