"""A user of the queue: a process with that user's id, which sends requests over the daemon's socket and says what came back.

One request a line on standard input, as JSON; one answer a line on standard output.
"""

import http.client
import json
import socket
import sys

TIMEOUT_SECONDS = 30


class Connection(http.client.HTTPConnection):
    """HTTP over a socket in the file system."""

    def __init__(self, path):
        super().__init__("rota", timeout=TIMEOUT_SECONDS)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(TIMEOUT_SECONDS)
        self.sock.connect(self.path)


def ask(path, method, target, body):
    """The status and the answer; status 0 if there was no answer."""
    connection = Connection(path)
    try:
        headers = {"content-type": "application/json"} if body is not None else {}
        connection.request(method, target, json.dumps(body) if body is not None else None, headers)
        response = connection.getresponse()
        return response.status, response.read().decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        return 0, repr(error)
    finally:
        connection.close()


class Idlers:
    """Connections that say half a sentence and wait."""

    def __init__(self):
        self.open = []

    def take(self, path, count, said):
        for _ in range(count):
            idler = socket.socket(socket.AF_UNIX)
            idler.settimeout(1)
            try:
                idler.connect(path)
                idler.sendall(said.encode("latin-1"))
            except OSError:
                idler.close()
                continue
            self.open.append(idler)
        return len(self.open)

    def drop(self):
        for idler in self.open:
            idler.close()
        self.open.clear()


def main():
    idlers = Idlers()
    for line in sys.stdin:
        order = json.loads(line)
        if order["do"] == "ask":
            status, text = ask(order["socket"], order["method"], order["target"], order["body"])
            answer = {"status": status, "text": text}
        elif order["do"] == "idle":
            answer = {"open": idlers.take(order["socket"], order["count"], order["said"])}
        else:
            idlers.drop()
            answer = {}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
