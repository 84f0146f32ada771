"""A training script with Gavel's own iterator: `gavel_script.py ITERATOR_FILE JOURNAL SECONDS_PER_STEP`, and the arguments that Gavel appends.

The iterator is a file of Gavel's repository and does the counting. The modules that it imports are stood in for here, so that neither
PyTorch nor gRPC nor generated code is needed: the calls are made from the field numbers alone.
"""

import argparse
import ast
import importlib.util
import os
import pathlib
import socket
import struct
import sys
import time
import types

# Frames of HTTP/2, and the flags that end headers and streams.
DATA, HEADERS, SETTINGS, END_STREAM, END_HEADERS, ACKNOWLEDGED = 0, 1, 4, 1, 4, 1


def varint(value):
    """A whole number as protocol buffers write it."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def fields(message):
    """The fields of an answer by number: whole numbers and doubles."""
    found, at = {}, 0
    while at < len(message):
        number, kind = message[at] >> 3, message[at] & 7
        at += 1
        if kind == 1:
            found[number] = struct.unpack("<d", message[at : at + 8])[0]
            at += 8
        else:
            value = shift = 0
            while True:
                value |= (message[at] & 0x7F) << shift
                shift, at = shift + 7, at + 1
                if message[at - 1] < 0x80:
                    break
            found[number] = value
    return found


def frame(kind, flags, stream, body):
    """A frame of HTTP/2."""
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body


def call(address, method, message):
    """Calls a method of `IteratorToScheduler`; gives steps, seconds and extra seconds."""
    named = {
        ":method": "POST",
        ":scheme": "http",
        ":path": f"/IteratorToScheduler/{method}",
        ":authority": f"{address[0]}:{address[1]}",
        "content-type": "application/grpc",
        "te": "trailers",
    }
    headers = b"".join(b"\x00" + bytes([len(key)]) + key.encode() + bytes([len(value)]) + value.encode() for key, value in named.items())
    with socket.create_connection(address) as link:
        link.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0, b""))
        link.sendall(frame(HEADERS, END_HEADERS, 1, headers))
        link.sendall(frame(DATA, END_STREAM, 1, b"\x00" + len(message).to_bytes(4, "big") + message))
        answer, reader, is_over = b"", link.makefile("rb"), False
        while not is_over:
            head = reader.read(9)
            if len(head) < 9:
                break
            kind, flags, body = head[3], head[4], reader.read(int.from_bytes(head[:3], "big"))
            if kind == SETTINGS and not flags & ACKNOWLEDGED:
                link.sendall(frame(SETTINGS, ACKNOWLEDGED, 0, b""))
            if kind == DATA:
                answer += body
            is_over = kind in (DATA, HEADERS) and bool(flags & END_STREAM)
    if len(answer) < 5:
        raise RuntimeError(f"{method} was refused")
    found = fields(answer[5:])
    return found.get(1, 0), found.get(2, 0.0), found.get(3, 0.0)


class Client:
    """What Gavel's iterator calls the scheduler through."""

    # How many numbers the iterator takes from a renewal: two or three, by its version.
    numbers = 2

    def __init__(self, job_id, worker_id, host, port, *_):
        self.job, self.worker, self.address = job_id, worker_id, (host, port)

    def init(self):
        """The first lease of a run."""
        return call(self.address, "InitJob", b"\x08" + varint(self.job))

    def update_lease(self, steps, duration, max_steps, max_duration):
        """A further lease."""
        whole = [(1, self.job), (2, self.worker), (3, steps), (5, max_steps)]
        message = b"".join(bytes([number << 3]) + varint(int(value)) for number, value in whole)
        doubles = [(4, duration), (6, max_duration)]
        message += b"".join(bytes([number << 3 | 1]) + struct.pack("<d", value) for number, value in doubles)
        return call(self.address, "UpdateLease", message)[: self.numbers]


class Lock:
    """A lock that one process alone takes."""

    def __init__(self, _path):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Lease:
    """Steps and seconds until which a run may go on."""

    def __init__(self, max_steps, max_duration):
        self.max_steps, self.max_duration = max_steps, max_duration


def stand_in(name, **content):
    """Puts a module in the place of one that is not here."""
    module = types.ModuleType(name)
    module.__path__ = []
    vars(module).update(content)
    sys.modules[name] = module
    return module


def iterator_of(path):
    """The iterator of Gavel's file."""
    text = pathlib.Path(path).read_text()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assign) and "update_lease" in ast.unparse(node.value) and isinstance(node.targets[0], ast.Tuple):
            Client.numbers = len(node.targets[0].elts)
    distributed = stand_in("torch.distributed", is_initialized=lambda: False, is_available=lambda: False)
    stand_in("torch", distributed=distributed)
    for name in ("torch.utils", "torch.utils.data"):
        stand_in(name)
    stand_in("torch.utils.data.dataloader", DataLoader=list)
    stand_in("filelock", FileLock=Lock)
    stand_in("lease", Lease=Lease)
    stand_in("runtime")
    client = stand_in("runtime.rpc.iterator_client", IteratorRpcClient=Client)
    stand_in("runtime.rpc", iterator_client=client)
    specification = importlib.util.spec_from_file_location("gavel_iterator", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module.GavelIterator


def main():
    """Does the steps that are left, one line of the journal each, and saves when the lease is over."""
    parser = argparse.ArgumentParser()
    parser.add_argument("iterator")
    parser.add_argument("journal", type=pathlib.Path)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--num_steps", type=int)
    parser.add_argument("--checkpoint_dir", type=pathlib.Path)
    parser.add_argument("--enable_gavel_iterator", action="store_true")
    parser.add_argument("--local_rank", type=int)
    options = parser.parse_args()
    options.checkpoint_dir.mkdir(parents=True, exist_ok=True)
    saved = options.checkpoint_dir / "model"
    done = int(saved.read_text()) if saved.exists() else 0
    load, save = (lambda: done), saved.write_text
    batches = iterator_of(options.iterator)(list(range(7)), str(options.checkpoint_dir), load, save)
    while done < options.num_steps and not batches.done:
        for _ in batches:
            done += 1
            with options.journal.open("a") as journal:
                journal.write(f"{done} {os.environ['GAVEL_ROUND_ID']}\n")
            time.sleep(options.seconds)
            if done == options.num_steps:
                break
    if done == options.num_steps:
        batches.complete()
    batches.save_checkpoint(str(done))


main()
