"""JSON to typed records, by the records' own annotations; and what is sent that JSON has no word for.

Fields that are not known here are kept in `raw`: a newer daemon may say more. A field that is missing is None where that is
allowed, and a mistake elsewhere.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, Callable, ClassVar, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from ._errors import Unintelligible

T = TypeVar("T")

Duration = Union[float, timedelta]
"""Seconds, or a `timedelta`."""

Moment = Union[datetime, timedelta, str]
"""A time: a `datetime` (local if it has no zone), a `timedelta` back from now, or a string as RFC 3339 has it."""

_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


@dataclass(frozen=True)
class Record:
    """What the daemon says of one thing."""

    raw: Mapping[str, Any] = field(init=False, repr=False, compare=False, default_factory=dict)
    """All that the daemon said, also what this package has no name for."""

    _hints: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        # Here its own module's names are at hand; later it passes for one of the package's.
        cls._hints = get_type_hints(cls)


def decode(kind: type[T], value: object) -> T:
    """The answer as a record, or as a list of them."""
    try:
        reader: Callable[[object], object] = _reader(cast(Any, kind))
        return cast(T, reader(value))
    except (TypeError, ValueError) as error:
        message = f"the daemon's answer cannot be understood ({error}); are package and daemon of one version?"
        raise Unintelligible(message) from error


@functools.cache
def _reader(hint: Any) -> Callable[[object], object]:
    """What turns JSON into a value of this type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return lambda value: value
    if origin is Union:
        inner = _reader(next(argument for argument in arguments if argument is not type(None)))
        return lambda value: None if value is None else inner(value)
    if origin is list:
        inner = _reader(arguments[0])
        return lambda value: [inner(item) for item in _a(list, value)]
    if origin is tuple:
        inner = _reader(arguments[0])
        return lambda value: tuple(inner(item) for item in _a(list, value))
    if origin is Literal or hint is str:
        return _text
    if hint is datetime:
        return lambda value: parse_time(_a(str, value))
    if hint is float:
        return lambda value: float(_a((int, float), value))
    if isinstance(hint, type) and issubclass(hint, Record):
        return functools.partial(_record, hint, _fields(hint))
    return functools.partial(_a, hint)


def _a(kind: Any, value: object) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"{value!r:.80} is not of type {getattr(kind, '__name__', 'number')}")
    return value


def _fields(kind: type[Record]) -> list[tuple[str, str, bool, Callable[[object], object]]]:
    hints = kind._hints
    told = [one for one in dataclasses.fields(kind) if one.init]
    return [
        (one.name, one.metadata.get("json", one.name), type(None) in get_args(hints[one.name]), _reader(hints[one.name]))
        for one in told
    ]


def _record(kind: Any, fields: list[tuple[str, str, bool, Callable[[object], object]]], value: object) -> object:
    told = _a(dict, value)
    known = {}
    for name, key, may_be_missing, read in fields:
        if key in told:
            known[name] = read(told[key])
        elif may_be_missing:
            known[name] = None
        else:
            raise ValueError(f"{kind.__name__} without `{key}`")
    record = kind(**known)
    object.__setattr__(record, "raw", told)
    return record


def _text(value: object) -> str:
    """Text of the operating system, which need not be UTF-8."""
    if isinstance(value, dict) and "base64" in value:
        return os.fsdecode(base64.b64decode(value["base64"]))
    return cast(str, _a(str, value))


def encode_text(value: Union[str, bytes, os.PathLike[str]]) -> Union[str, dict[str, str]]:
    """The other way round: byte for byte as the operating system has it."""
    octets = os.fsencode(value)
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(octets).decode()}


def parse_time(text: str) -> datetime:
    """A time as RFC 3339 has it, in UTC; what is below a microsecond is left out."""
    found = _TIME.fullmatch(text)
    if not found:
        raise ValueError(f"`{text}` is not a time")
    day, clock, fraction, zone = found.groups()
    micros = ((fraction or ".0")[1:] + "000000")[:6]
    zone = "+00:00" if zone in "Zz" else zone
    return datetime.fromisoformat(f"{day}T{clock}.{micros}{zone}").astimezone(timezone.utc)


def seconds(duration: Duration) -> float:
    return duration.total_seconds() if isinstance(duration, timedelta) else float(duration)


def rfc3339(moment: Moment) -> str:
    """A time as the daemon reads it."""
    if isinstance(moment, timedelta):
        moment = datetime.now(timezone.utc) - moment
    return moment if isinstance(moment, str) else moment.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")
