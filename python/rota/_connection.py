"""A request on its way over a socket: sent, then read as it is answered."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

from ._endpoint import Endpoint
from ._errors import Unreachable
from ._exchange import LOST, Reading, Request, Response

CONNECT_SECONDS = 20.0
PIECE_BYTES = 64 << 10


class Answer:
    """What a connection of either kind knows of the answer so far."""

    def __init__(self) -> None:
        self.reading = Reading()
        self._early = b""
        """Of the body, what came together with the head."""

    def whole(self, body: bytes) -> Response:
        return Response(self.reading.status, self.reading.headers, body)


class Connection(Answer):
    """Blocking."""

    def __init__(self, endpoint: Endpoint, request: Request) -> None:
        super().__init__()
        # First, so that what cannot be sent opens nothing.
        message = request.encode(endpoint)
        try:
            self._socket = _connect(endpoint)
        except OSError as error:
            raise endpoint.unreachable(error) from error
        self._socket.settimeout(request.patience_seconds)
        # Who stops reading in the middle has answered why.
        with contextlib.suppress(OSError):
            self._socket.sendall(message)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def head(self) -> int:
        """The status."""
        while not self.reading.has_head:
            self._early += self._receive()
        return self.reading.status

    def pieces(self) -> Iterator[bytes]:
        """The body, as it comes."""
        self.head()
        if self._early:
            yield self._early
        while not self.reading.is_complete:
            piece = self._receive()
            if piece:
                yield piece

    def response(self) -> Response:
        """All of it."""
        body = b"".join(self.pieces())
        return self.whole(body)

    def _receive(self) -> bytes:
        try:
            data = self._socket.recv(PIECE_BYTES)
        except OSError as error:
            raise Unreachable(f"{LOST} ({error})") from error
        return self.reading.feed(data)


def _connect(endpoint: Endpoint) -> socket.socket:
    if endpoint.socket is not None:
        local = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # Blocking, because it would be refused where the daemon is only busy.
            local.connect(str(endpoint.socket))
        except OSError:
            local.close()
            raise
        return local
    remote = socket.create_connection((endpoint.host, endpoint.port), timeout=CONNECT_SECONDS)
    remote.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if endpoint.tls is None:
        return remote
    try:
        return endpoint.tls.wrap_socket(remote, server_hostname=endpoint.host)
    except OSError:
        remote.close()
        raise
