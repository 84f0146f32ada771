"""Answers that go on: logs and events. What to ask, what the bytes mean, and what to do when they end; without a socket."""

from __future__ import annotations

import codecs
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Generic, Optional, TypeVar

from . import _operations as operations
from ._decoding import decode
from ._errors import ABSENT, RotaError, Unintelligible, Unreachable
from ._exchange import LOST, Request
from ._jobs import Event, JobRef, number
from ._patience import Patience, Steps

T_co = TypeVar("T_co", covariant=True)

SILENCE_SECONDS_MAX = 60.0
"""The daemon writes a line to those who follow events every 15 seconds, if only to say that it is there."""

LINE_LENGTH_MAX = 1 << 20


class Stream(ABC, Generic[T_co]):
    """One answer that goes on, over as many connections as it takes."""

    def __init__(self, patience: Patience) -> None:
        self.patience = patience
        self.was_there = False

    @abstractmethod
    def request(self) -> Request:
        """What to ask, the first time and after the connection was lost."""

    def opened(self) -> None:
        """The daemon has accepted the request."""
        self.was_there = True
        self.patience.met()

    @abstractmethod
    def feed(self, piece: bytes) -> Iterator[T_co]:
        """What is new with these bytes."""

    def rest(self) -> Iterator[T_co]:
        """What was held back until the end was known."""
        return iter(())

    @abstractmethod
    def goes_on(self, lost: Optional[RotaError]) -> Steps[bool]:
        """Whether to ask again, after a connection that ended by itself or was lost."""

    def absent(self, error: RotaError) -> Steps[None]:
        """A pause before the next try; one who was never there is not waited for."""
        if not self.was_there:
            raise error
        yield from self.patience.missed(error)


class Events(Stream[Event]):
    """Events as they happen. After a lost connection it goes on behind the last one seen."""

    def __init__(self, last_event_id: Optional[int], patience: Patience) -> None:
        super().__init__(patience)
        self._last = last_event_id
        self._held = b""
        self._data: list[str] = []

    def request(self) -> Request:
        self._held, self._data = b"", []
        headers = {"Accept": "text/event-stream"}
        if self._last is not None:
            headers["Last-Event-ID"] = str(self._last)
        return Request("GET", "/events", headers=headers, patience_seconds=SILENCE_SECONDS_MAX)

    def feed(self, piece: bytes) -> Iterator[Event]:
        *lines, self._held = (self._held + piece).split(b"\n")
        for line in lines:
            text = line.rstrip(b"\r").decode(errors="replace")
            if text.startswith("data:"):
                self._data.append(text[5:].lstrip(" "))
            elif not text and self._data:
                told, self._data = "\n".join(self._data), []
                event = decode(Event, _json(told))
                self._last = event.seq
                yield event

    def goes_on(self, lost: Optional[RotaError]) -> Steps[bool]:
        # It has no end of its own: a daemon that ended it is going away, or let go a reader that was too slow.
        yield from self.absent(lost or Unreachable(LOST))
        return True


def _json(text: str) -> object:
    try:
        told: object = json.loads(text)
    except ValueError as error:
        raise Unintelligible(f"an event cannot be read: {error}") from error
    return told


class LogPieces(Stream[bytes]):
    """What a job wrote, as it comes."""

    def __init__(self, of: JobRef, tail: Optional[int], attempt: Optional[int], patience: Patience, *, follow: bool) -> None:
        super().__init__(patience)
        self._job = number(of)
        self._follow = follow
        self._tail = tail
        query = [("follow", "true" if follow else "false")]
        query.extend((name, str(value)) for name, value in (("tail", tail), ("attempt", attempt)) if value is not None)
        self._query = query
        self._shown = 0
        self._known = 0

    def request(self) -> Request:
        self._known = self._shown
        return Request("GET", f"/api/v1/jobs/{self._job}/logs", self._query, patience_seconds=None)

    def feed(self, piece: bytes) -> Iterator[bytes]:
        # What was shown before the connection was lost comes again, and is left out.
        news = piece[self._known :]
        self._known -= len(piece) - len(news)
        self._shown += len(news)
        if news:
            yield news

    def goes_on(self, lost: Optional[RotaError]) -> Steps[bool]:
        if lost is not None:
            if self._tail is not None:
                # How far it had come cannot be told from a part.
                raise lost
            yield from self.absent(lost)
            return True
        while self._follow:
            try:
                seen = yield from operations.job(self._job)
            except ABSENT as error:
                yield from self.absent(error)
            else:
                return not seen.is_over
        return False


class LogLines(Stream[str]):
    """What a job wrote, line by line, each with its end. Bytes that are not text are replaced."""

    def __init__(self, pieces: LogPieces) -> None:
        super().__init__(pieces.patience)
        self._pieces = pieces
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._held = ""

    def request(self) -> Request:
        return self._pieces.request()

    def opened(self) -> None:
        self._pieces.opened()

    def feed(self, piece: bytes) -> Iterator[str]:
        for news in self._pieces.feed(piece):
            *lines, self._held = (self._held + self._decoder.decode(news)).split("\n")
            yield from (line + "\n" for line in lines)
            if len(self._held) > LINE_LENGTH_MAX:
                # A log without line ends is handed on as it comes.
                whole, self._held = self._held, ""
                yield whole

    def rest(self) -> Iterator[str]:
        last = self._held + self._decoder.decode(b"", final=True)
        if last:
            yield last

    def goes_on(self, lost: Optional[RotaError]) -> Steps[bool]:
        return self._pieces.goes_on(lost)
