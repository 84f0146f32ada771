"""HTTP/1.1 as far as Rota needs it, without a socket: requests to bytes, and bytes to answers.

Both clients use it, so that they cannot differ. Every request has a connection of its own: nothing is shared between
threads, nor with a child after a fork, and a socket connects in microseconds.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Optional
from urllib.parse import parse_qsl, urlencode

from ._errors import BadInput, Unintelligible, Unreachable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._endpoint import Endpoint

ANSWER_SECONDS = 90.0
"""The longest an answer may take; the daemon's own long polls end after 60."""

_HEAD_BYTES_MAX = 64 << 10
_BODY_BYTES_MAX = 16 << 20

LOST = "the daemon went away before it had answered"


@dataclass(frozen=True)
class Request:
    """What is asked."""

    method: str
    path: str
    query: Sequence[tuple[str, str]] = ()
    body: Optional[Any] = None
    headers: dict[str, str] = field(default_factory=dict)
    patience_seconds: Optional[float] = ANSWER_SECONDS
    """The longest silence of the daemon; without an end for what comes when it comes."""
    is_whole: bool = False
    """Whether the answer must be known, also to one who is interrupted while it is on its way."""

    def encode(self, endpoint: Endpoint) -> bytes:
        """As it is sent."""
        target = endpoint.prefix + self.path + ("?" + urlencode(self.query) if self.query else "")
        headers = {**endpoint.headers(), "Connection": "close", "Accept-Encoding": "identity", **self.headers}
        body = b""
        if self.body is not None:
            body = json.dumps(self.body, allow_nan=False).encode()
            if len(body) > _BODY_BYTES_MAX:
                # The daemon would hang up in the middle of it.
                raise BadInput(
                    "bad-input", 413, f"a request of {len(body) >> 20} MiB: the daemon takes up to {_BODY_BYTES_MAX >> 20}"
                )
            headers["Content-Type"] = "application/json"
        if self.body is not None or self.method != "GET":
            headers["Content-Length"] = str(len(body))
        lines = [f"{self.method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        return "\r\n".join([*lines, "", ""]).encode("ascii") + body


@dataclass(frozen=True)
class Pause:
    """Nothing is asked for so long."""

    seconds: float


@dataclass(frozen=True)
class Response:
    """A whole answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def is_accepted(self) -> bool:
        return 200 <= self.status < 300

    def json(self) -> Any:
        """What it says."""
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise Unintelligible(f"the daemon's answer cannot be read: {error}") from error

    def next_page(self) -> Optional[list[tuple[str, str]]]:
        """The query of the page after this one, by its `Link` header."""
        for link in self.headers.get("link", "").split(","):
            target, _, parameters = link.partition(">")
            if 'rel="next"' in parameters.replace(" ", ""):
                # Only the query is followed: a token is never carried to another host or path.
                return parse_qsl(target.strip().lstrip("<").partition("?")[2], keep_blank_values=True)
        return None


class Reading:
    """An answer as it arrives. `feed` takes bytes as they come and gives those of the body that are in them."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.is_complete = False
        self._held = bytearray()
        self._is_chunked = False
        self._left: Optional[int] = None
        """Bytes of the body, or of the chunk, that are still to come; None if the end of the connection ends it."""
        self._in_trailer = False

    @property
    def has_head(self) -> bool:
        return self.status != 0

    def feed(self, data: bytes) -> bytes:
        """Takes what came; empty means that the other end closed."""
        if not data:
            if not self.has_head or self._is_chunked or self._left is not None:
                raise Unreachable(LOST)
            self.is_complete = True
            return b""
        self._held += data
        if not self.has_head and not self._read_head():
            return b""
        return self._chunks() if self._is_chunked else self._plain()

    def _read_head(self) -> bool:
        while True:
            end = self._held.find(b"\r\n\r\n")
            if end < 0:
                if len(self._held) > _HEAD_BYTES_MAX:
                    raise Unintelligible("what answers does not speak HTTP")
                return False
            lines = self._held[:end].decode("latin-1").split("\r\n")
            del self._held[: end + 4]
            version, _, rest = lines[0].partition(" ")
            if not version.startswith("HTTP/1.") or not rest[:3].isdigit():
                raise Unintelligible("what answers does not speak HTTP")
            if rest[0] != "1":
                break
        for line in lines[1:]:
            name, _, value = line.partition(":")
            name, value = name.strip().lower(), value.strip()
            self.headers[name] = f"{self.headers[name]}, {value}" if name in self.headers else value
        self._is_chunked = "chunked" in self.headers.get("transfer-encoding", "").lower()
        length = self.headers.get("content-length")
        if int(rest[:3]) == 204:
            self._left = 0
        elif self._is_chunked:
            self._left = None
        elif length is not None:
            if not length.isdigit():
                raise Unintelligible(f"the answer's length is `{length}`")
            self._left = int(length)
        self.status = int(rest[:3])
        return True

    def _plain(self) -> bytes:
        body = bytes(self._held if self._left is None else self._held[: self._left])
        self._held.clear()
        if self._left is not None:
            self._left -= len(body)
            self.is_complete = self._left == 0
        return body

    def _chunks(self) -> bytes:
        body = bytearray()
        while not self.is_complete:
            if self._left:
                piece = self._held[: self._left]
                body += piece
                del self._held[: len(piece)]
                self._left -= len(piece)
                if self._left:
                    break
            end = self._held.find(b"\n")
            if end < 0:
                break
            line = bytes(self._held[:end]).strip()
            del self._held[: end + 1]
            if self._in_trailer:
                self.is_complete = not line
            elif line:
                # The empty line is the one that ends the chunk before.
                try:
                    self._left = int(line.partition(b";")[0], 16)
                except ValueError as error:
                    raise Unintelligible("the answer comes in pieces of no known length") from error
                self._in_trailer = self._left == 0
        return bytes(body)
