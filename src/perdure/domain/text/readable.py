"""Validation of text: any Unicode text is accepted, except lone surrogates, which no database or wire can carry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perdure.domain.errors import InvalidInputError

_LONGEST = 120  # maximum characters of a value in an error
_AROUND = 20


def kind_of(value: object) -> str:
    """Return what a value is, in the words of JSON: text, a number, a list, an object, nothing."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    kinds: dict[str, tuple[type, ...]] = {
        "text": (str,),
        "bytes": (bytes, bytearray),
        "a number": (int, float),
        "an object": (Mapping,),
        "a list": (list, tuple),
    }
    found = next((kind for kind, types in kinds.items() if isinstance(value, types)), None)
    return found or f"a value of type {type(value).__name__}"


def shown(value: object) -> str:
    """Return a value for an error message, shortened if it is long."""
    if value is None or isinstance(value, bool):
        return kind_of(value)
    if isinstance(value, type):
        return f"the class {value.__name__}"
    try:
        text = repr(value)
    except Exception:  # nested too deeply, a number of too many digits, or an object that cannot say what it is
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def invalid(field: str, wanted: str, value: object, label: str = "") -> InvalidInputError:
    """Return the error that a field is not what is wanted; `label` is its name in the sentence."""
    return InvalidInputError(f"{label or field} must be {wanted}, not {shown(value)}", field=field, value=value)


def is_unicode(text: str) -> bool:
    """Whether the text can be encoded: it contains no lone surrogate."""
    return surrogate_at(text) is None


def surrogate_at(text: str) -> int | None:
    """Return the position of the first lone surrogate, or None."""
    if text.isascii():
        return None
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return error.start
    return None


def check_unicode(text: str, field: str) -> str:
    """Return the text; InvalidInputError names the field and the position of a lone surrogate."""
    place = surrogate_at(text)
    if place is not None:
        near = text[max(0, place - _AROUND) : place + _AROUND]
        raise InvalidInputError(
            f"{field} must be Unicode text without lone surrogates, not {near!r} at character {place}",
            field=field,
            value=near,
        )
    return text


def utf8_of(header: str, name: str) -> str:
    """Return the text of a header whose bytes were read as Latin-1; InvalidInputError names one that is not UTF-8."""
    if header.isascii():
        return header
    try:
        return header.encode("latin-1").decode("utf-8")
    except UnicodeError:
        raise InvalidInputError(f"the header {name} must be UTF-8 text", field=name) from None


def readable_texts(texts: Sequence[str], advice: str = "") -> list[str]:
    """Return the texts, with lone surrogates as U+FFFD; InvalidInputError with the advice for anything but a list."""
    if isinstance(texts, str | bytes):
        one = f"texts must be a list of texts, not {kind_of(texts)}{advice}"
        raise InvalidInputError(one, field="texts", value=texts)
    for position, text in enumerate(texts):
        if not isinstance(text, str):
            field = f"texts[{position}]"
            raise InvalidInputError(f"{field} must be text, not {kind_of(text)}", field=field, value=text)
    return [
        text if is_unicode(text) else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        for text in texts
    ]
