"""A user of the queue: a process with that user's id, which sends requests over the daemon's socket and says what came back.

One order a line, as JSON; one answer a line.
"""

import http.client
import json
import os
import socket

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


def serve(orders, answers):
    """Does what the orders say, until there are no more."""
    idlers = Idlers()
    for line in orders:
        order = json.loads(line)
        if order["do"] == "ask":
            status, text = ask(order["socket"], order["method"], order["target"], order["body"])
            answer = {"status": status, "text": text}
        elif order["do"] == "idle":
            answer = {"open": idlers.take(order["socket"], order["count"], order["said"])}
        else:
            idlers.drop()
            answer = {}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def start(uid):
    """Starts an agent for a user. It is forked, because the user may not be able to run this very Python.

    Gives its process id, the file for orders and the file for answers.
    """
    orders_read, orders_write = os.pipe()
    answers_read, answers_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            # Nothing of this process but its two ends: an agent that held another's pipe open would keep it from ending.
            low, high = sorted((orders_read, answers_write))
            os.closerange(3, low)
            os.closerange(low + 1, high)
            os.closerange(high + 1, 4096)
            if os.geteuid() == 0:
                os.setgroups([])
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
            os.chdir("/")
            with open(orders_read, encoding="utf-8") as orders, open(answers_write, "w", encoding="utf-8") as answers:
                serve(orders, answers)
            code = 0
        finally:
            os._exit(code)
    os.close(orders_read)
    os.close(answers_write)
    return pid, open(orders_write, "w", encoding="utf-8"), open(answers_read, encoding="utf-8")
