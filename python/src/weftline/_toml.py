"""Python values as TOML, for the one parser that checks them: Rust's."""

from collections.abc import Iterable, Mapping
from typing import Any

_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


def dump(values: Mapping[str, Any]) -> str:
    """A TOML document: a line for each key, tables inline, so that an error's line is a key's."""
    return "".join(f"{_key(key)} = {_value(value, key)}\n" for key, value in values.items())


def _key(key: str) -> str:
    return key if key and set(key) <= _BARE else _text(key)


def _text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c >= " " and c != "\x7f" else f"\\u{ord(c):04x}" for c in escaped) + '"'


def _value(value: Any, key: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    # Numbers of numpy are subclasses with another repr.
    if isinstance(value, float):
        return float.__repr__(value)
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(k)} = {_value(v, k)}" for k, v in value.items()) + " }"
    plain = getattr(value, "tolist", None)  # a scalar or an array of numpy
    if plain is not None:
        return _value(plain(), key)
    if isinstance(value, Iterable):
        return "[" + ", ".join(_value(item, key) for item in value) + "]"
    raise TypeError(f"key '{key}': a {type(value).__name__} is no text, number, list or table")
