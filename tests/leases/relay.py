"""Passes connections on to the lease service: what a test says through it, this process says. `relay.py ADDRESS_FILE HOST PORT`."""

import os
import socket
import sys
import threading


def pass_on(source, target):
    """Copies what comes until the source ends."""
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def main():
    """Listens on a free port of loopback and writes its address to the file."""
    port = socket.create_server(("127.0.0.1", 0))
    with open(sys.argv[1] + ".new", "w") as text:
        text.write("127.0.0.1:%d\n" % port.getsockname()[1])
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    while True:
        client, _ = port.accept()
        service = socket.create_connection((sys.argv[2], int(sys.argv[3])))
        for source, target in ((client, service), (service, client)):
            threading.Thread(target=pass_on, args=(source, target), daemon=True).start()


main()
