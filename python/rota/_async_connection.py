"""A request on its way over a stream of asyncio: sent, then read as it is answered.

`asyncio.wait_for` is not used: before Python 3.12 it loses a cancellation that comes together with the result.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Optional

from ._connection import CONNECT_SECONDS, PIECE_BYTES, Answer
from ._endpoint import Endpoint
from ._errors import Unreachable
from ._exchange import LOST, Request, Response

_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class AsyncConnection(Answer):
    """On the event loop."""

    def __init__(self, endpoint: Endpoint, request: Request) -> None:
        super().__init__()
        self._endpoint = endpoint
        self._message = request.encode(endpoint)
        self._patience_seconds = request.patience_seconds
        self._streams: Optional[_Streams] = None
        self._is_silent = False

    async def __aenter__(self) -> AsyncConnection:
        try:
            self._streams = await _connect(self._endpoint)
        except OSError as error:
            raise self._endpoint.unreachable(error) from error
        writer = self._streams[1]
        try:
            writer.write(self._message)
            # Who stops reading in the middle has answered why.
            with contextlib.suppress(OSError):
                await writer.drain()
        except BaseException:
            writer.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._streams is not None:
            self._streams[1].close()
            with contextlib.suppress(OSError):
                await self._streams[1].wait_closed()

    async def head(self) -> int:
        """The status."""
        while not self.reading.has_head:
            self._early += await self._receive()
        return self.reading.status

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body, as it comes."""
        await self.head()
        if self._early:
            yield self._early
        while not self.reading.is_complete:
            piece = await self._receive()
            if piece:
                yield piece

    async def response(self) -> Response:
        """All of it."""
        body = b"".join([piece async for piece in self.pieces()])
        return self.whole(body)

    async def _receive(self) -> bytes:
        if self._streams is None:
            raise RuntimeError("not connected yet")
        watch = None
        if self._patience_seconds is not None:
            watch = asyncio.get_running_loop().call_later(self._patience_seconds, self._hang_up)
        try:
            data = await self._streams[0].read(PIECE_BYTES)
        except OSError as error:
            raise Unreachable(f"{LOST} ({error})") from error
        finally:
            if watch is not None:
                watch.cancel()
        if self._is_silent:
            raise Unreachable(f"{LOST} (timed out)")
        return self.reading.feed(data)

    def _hang_up(self) -> None:
        self._is_silent = True
        if self._streams is not None:
            self._streams[1].transport.abort()


async def _connect(endpoint: Endpoint) -> _Streams:
    if endpoint.socket is not None:
        return await asyncio.open_unix_connection(str(endpoint.socket))
    opening = asyncio.ensure_future(asyncio.open_connection(endpoint.host, endpoint.port, ssl=endpoint.tls))
    try:
        await asyncio.wait({opening}, timeout=CONNECT_SECONDS)
    except asyncio.CancelledError:
        opening.add_done_callback(_close_unwanted)
        opening.cancel()
        raise
    if not opening.done():
        opening.cancel()
        raise TimeoutError("it took too long")
    reader, writer = opening.result()
    remote = writer.get_extra_info("socket")
    if remote is not None:
        remote.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return reader, writer


def _close_unwanted(opening: asyncio.Future[_Streams]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result()[1].close()
