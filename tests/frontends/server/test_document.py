"""The OpenAPI document: valid by its own schema, every name in a path told, every answer typed."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from html import escape
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from perdure.frontends.server.app import docs_page
from tests.frontends.server.running import Running

METHODS = {"get", "put", "post", "patch", "delete"}


@pytest.fixture(scope="module")
def document(shared: Running) -> dict[str, Any]:
    found: dict[str, Any] = shared.client.get("/openapi.json").raise_for_status().json()
    return found


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method in item.keys() & METHODS:
            yield path, method, item[method]


def test_it_is_valid(document: dict[str, Any]) -> None:
    assert [str(error) for error in OpenAPIV31SpecValidator(document).iter_errors()] == []


def test_every_name_in_a_path_is_a_parameter(document: dict[str, Any]) -> None:
    for path, method, operation in operations(document):
        told = {each["name"] for each in operation.get("parameters", []) if each["in"] == "path"}
        assert told == {*re.findall(r"{(\w+)}", path)}, (method, path)


def test_the_page_shows_every_operation_and_runs_and_loads_nothing(shared: Running, document: dict[str, Any]) -> None:
    answer = shared.client.get("/docs")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    page = answer.text
    for path, method, operation in operations(document):
        assert f"<code>{method.upper()} {escape(path)}</code> {escape(operation['summary'])}" in page
    assert re.findall(r"<(?:script|link|img|iframe|object|form|base|meta)\b[^>]*>", page) == ['<meta charset="utf-8">']
    assert re.findall(r'<[^>]*\s(?:src|href|on\w+)="?([^" >]*)', page) == ["openapi.json"]
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-") and "unsafe" not in policy
    (style,) = re.findall("<style>(.*?)</style>", page, re.DOTALL)
    assert base64.b64encode(hashlib.sha256(style.encode()).digest()).decode() in policy
    for gone in ("/redoc", "/docs/oauth2-redirect"):
        assert shared.client.get(gone).status_code == 404


def test_the_page_tells_every_text_as_text() -> None:
    evil = "<script>alert(1)</script>\"'&"
    schema = {"type": "object", "description": evil, "properties": {evil: {"enum": [evil], "description": evil}}}
    operation = {
        "summary": evil,
        "description": evil,
        "tags": [evil],
        "parameters": [{"name": evil, "in": "query", "schema": {"$ref": evil}, "description": evil}],
        "requestBody": {"content": {evil: {"schema": {"$ref": f"#/components/schemas/{evil.rpartition('/')[2]}"}}}},
        "responses": {evil: {"description": evil}},
    }
    page = docs_page(
        {
            "info": {"title": evil, "version": evil, "description": evil},
            "paths": {evil: {"get": operation}},
            "components": {"schemas": {evil.rpartition("/")[2]: schema}},
        }
    )
    assert "<script" not in page and "alert(1)" in page


def test_every_answer_is_typed(document: dict[str, Any]) -> None:
    bare = []
    for path, method, operation in operations(document):
        for status, answer in operation["responses"].items():
            told = answer.get("content", {}).get("application/json")
            if told is None or not status.startswith("2"):
                continue
            if not all(_is_typed(document, each) for each in _branches(told.get("schema", {}))):
                bare.append(f"{method.upper()} {path}")
    assert bare == []


def _branches(schema: dict[str, Any]) -> list[dict[str, Any]]:
    return schema.get("anyOf", [schema])


def _is_typed(document: dict[str, Any], schema: dict[str, Any]) -> bool:
    """Whether a schema names the fields of what it describes."""
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return _is_typed(document, schema["items"]) if "items" in schema else bool(schema.get("properties"))
