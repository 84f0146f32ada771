"""Where the daemon is: the socket in its state directory, or a URL."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional, Union
from urllib.parse import urlsplit

from ._errors import Unreachable

_SYSTEM = Path("/var/lib/rota")


@dataclass(frozen=True)
class Endpoint:
    """One of the two: a socket, or a host with a port."""

    socket: Optional[Path] = None
    host: str = "rota"
    port: int = 0
    tls: Optional[ssl.SSLContext] = None
    prefix: str = ""
    """What stands before every path, where a proxy serves more than Rota."""
    token: Optional[str] = field(default=None, repr=False)

    def headers(self) -> dict[str, str]:
        """What every request carries."""
        if self.socket is not None:
            return {"Host": "rota"}
        host = f"[{self.host}]" if ":" in self.host else self.host
        headers = {"Host": f"{host}:{self.port}"}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        return headers

    def unreachable(self, error: OSError) -> Unreachable:
        """Why nobody is there, and what to do."""
        if self.socket is None:
            return Unreachable(f"no daemon on {self.host}:{self.port} ({error})")
        folder = self.socket.parent
        if isinstance(error, PermissionError):
            return Unreachable(f"{folder} belongs to another user: name your own daemon's directory with `state`")
        return Unreachable(f"no daemon on {folder} ({error}): start one with `rota up --detach`, or name another with `state`")


def find(
    state: Union[str, os.PathLike[str], None],
    url: Optional[str],
    token: Optional[str],
    tls: Optional[ssl.SSLContext],
) -> Endpoint:
    """The daemon that is meant; the machine's own if nothing is said."""
    if url is None:
        if token is not None or tls is not None:
            raise ValueError("`token` and `tls` go with `url`: on the socket, callers are known by their user")
        return Endpoint(socket=(Path(state) if state is not None else state_dir()) / "rota.sock")
    if state is not None:
        raise ValueError("`state` and `url` are two ways to name a daemon: give one of them")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"url: `{url}` is not like http://127.0.0.1:8800 or https://host")
    if token is not None and not (token.isascii() and token.isprintable() and " " not in token):
        raise ValueError("token: it holds characters that no token has; was a line end read with it?")
    is_secure = parts.scheme == "https"
    return Endpoint(
        host=parts.hostname,
        port=parts.port or (443 if is_secure else 80),
        tls=(tls or ssl.create_default_context()) if is_secure else None,
        prefix=parts.path.rstrip("/"),
        token=token,
    )


def state_dir() -> Path:
    """The state directory that the command `rota` would take without `--state`."""
    named = os.environ.get("ROTA_STATE")
    if named:
        return Path(named)
    if os.geteuid() == 0:
        return _SYSTEM
    base, home = os.environ.get("XDG_STATE_HOME"), os.environ.get("HOME")
    if base:
        own = Path(base) / "rota"
    elif home:
        own = Path(home) / ".local/state/rota"
    else:
        return _SYSTEM
    # A user without a daemon of their own means the machine's.
    return _SYSTEM if not (own / "rota.sock").exists() and (_SYSTEM / "rota.sock").exists() else own
