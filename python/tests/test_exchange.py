"""Answers are understood however they arrive, and what the daemon says becomes records."""

from __future__ import annotations

import json
import ssl
import tempfile
import threading
import unittest
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Optional
from unittest import mock

import rota
from rota import _operations as operations
from rota._decoding import decode, encode_text, parse_time, rfc3339
from rota._endpoint import Endpoint, find, state_dir
from rota._errors import problem_of
from rota._exchange import Reading, Request, Response
from rota._jobs import Event, Job
from rota._patience import Patience
from rota._streams import LINE_LENGTH_MAX, Events, LogLines, LogPieces

PLAIN = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nX-Other: a\r\nx-other: b\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;what=ever\r\nllo\r\n0\r\nTrailer: x\r\n\r\n"
EARLY = b"HTTP/1.1 100 Continue\r\n\r\n" + PLAIN
UNTIL_CLOSED = b"HTTP/1.0 200 OK\r\n\r\nhello"
EMPTY = b"HTTP/1.1 204 No Content\r\n\r\n"


def read(message: bytes, step: int) -> tuple[bytes, Reading]:
    reading = Reading()
    body = b""
    for at in range(0, len(message), step):
        body += reading.feed(message[at : at + step])
    return body, reading


class Answers(unittest.TestCase):
    def test_whatever_pieces_they_come_in(self) -> None:
        for message, expected in ((PLAIN, b"hello"), (CHUNKED, b"hello"), (EARLY, b"hello"), (EMPTY, b"")):
            for step in (1, 2, 3, 7, 1000):
                body, reading = read(message, step)
                self.assertEqual((body, reading.is_complete), (expected, True), (message, step))
        self.assertEqual(read(PLAIN, 9)[1].headers["x-other"], "a, b")

    def test_one_without_a_length_ends_with_the_connection(self) -> None:
        body, reading = read(UNTIL_CLOSED, 4)
        self.assertEqual((body, reading.is_complete), (b"hello", False))
        reading.feed(b"")
        self.assertTrue(reading.is_complete)

    def test_one_that_breaks_off_is_no_answer(self) -> None:
        for message in (PLAIN, CHUNKED):
            for end in range(len(message) - 1):
                _, reading = read(message[:end], 1000)
                with self.assertRaises(rota.Unreachable):
                    reading.feed(b"")

    def test_what_does_not_speak_http(self) -> None:
        for message in (
            b"SSH-2.0-OpenSSH\r\n\r\n",
            b"HTTP/1.1 what\r\n\r\n",
            b"x" * 70_000,
            b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        ):
            with self.assertRaises(rota.Unintelligible):
                read(message, 1000)
        with self.assertRaises(rota.Unintelligible):
            read(CHUNKED.replace(b"2\r\nhe", b"zz\r\nhe"), 1000)

    def test_requests(self) -> None:
        endpoint = find(None, "https://gpu1/rota/", "secret", ssl.create_default_context())
        sent = Request("POST", "/api/v1/jobs", [("q", "a b&c")], {"x": "ä"}).encode(endpoint)
        head, _, body = sent.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        self.assertEqual(lines[0], "POST /rota/api/v1/jobs?q=a+b%26c HTTP/1.1")
        self.assertIn("Host: gpu1:443", lines)
        self.assertIn("Authorization: Bearer secret", lines)
        self.assertIn(f"Content-Length: {len(body)}", lines)
        self.assertEqual(json.loads(body), {"x": "ä"})
        self.assertIn(b"Host: [::1]:80\r\n", Request("GET", "/").encode(find(None, "http://[::1]", None, None)))

    def test_the_next_page(self) -> None:
        def following(link: str) -> Optional[list[tuple[str, str]]]:
            return Response(200, {"link": link}, b"").next_page()

        self.assertEqual(following('</api/v1/jobs?all=true&cursor=5>; rel="next"'), [("all", "true"), ("cursor", "5")])
        self.assertEqual(following('<https://x/?a=1>; rel="first", <https://x/?q=%26>; rel="next"'), [("q", "&")])
        self.assertIsNone(following('<https://x/?a=1>; rel="prev"'))
        self.assertIsNone(Response(200, {}, b"").next_page())

    def test_refusals_without_a_type_go_by_their_status(self) -> None:
        self.assertIsInstance(problem_of(Response(422, {}, b"missing field")), rota.BadInput)
        self.assertIsInstance(problem_of(Response(503, {}, b"")), rota.Stopping)
        self.assertIsInstance(problem_of(Response(429, {}, b'{"type":"rate"}')), rota.TooMany)
        other = problem_of(Response(418, {}, b'{"type":"teapot","title":"no coffee"}'))
        self.assertEqual((type(other), other.type, other.status, str(other)), (rota.Problem, "teapot", 418, "no coffee"))


class Records(unittest.TestCase):
    def test_times(self) -> None:
        whole = datetime(2026, 11, 16, 9, 30, 1, tzinfo=timezone.utc)
        self.assertEqual(parse_time("2026-11-16T09:30:01Z"), whole)
        self.assertEqual(parse_time("2026-11-16T10:30:01.123456789+01:00"), whole.replace(microsecond=123456))
        self.assertEqual(parse_time("2026-11-16T09:30:01.5Z"), whole.replace(microsecond=500000))
        self.assertEqual(rfc3339(whole), "2026-11-16T09:30:01Z")
        self.assertEqual(parse_time(rfc3339(whole.astimezone(timezone(timedelta(hours=5))))), whole)
        self.assertEqual(rfc3339("2026-11-16T09:30:01Z"), "2026-11-16T09:30:01Z")
        self.assertLess(parse_time(rfc3339(timedelta(hours=1))), datetime.now(timezone.utc) - timedelta(minutes=59))
        for wrong in ("", "yesterday", "2026-11-16", "2026-11-16T09:30:01"):
            with self.assertRaises(ValueError):
                parse_time(wrong)

    def test_what_is_new_is_kept_and_what_is_missing_is_told(self) -> None:
        told: dict[str, Any] = {"seq": 3, "at": "2026-11-16T09:30:01Z", "kind": "started", "detail": {"x": 1}, "new": True}
        event = decode(Event, told)
        self.assertEqual((event.seq, event.job, event.detail, event.raw["new"]), (3, None, {"x": 1}, True))
        self.assertEqual(event, decode(Event, {**told, "new": False}))
        for change in ({"seq": "3"}, {"seq": True}, {"at": 5}, {"at": "noon"}, {"kind": None}):
            with self.assertRaisesRegex(rota.Unintelligible, "of one version"):
                decode(Event, {**told, **change})
        with self.assertRaisesRegex(rota.Unintelligible, "Job without `id`"):
            decode(Job, {})
        with self.assertRaises(rota.Unintelligible):
            decode(list[Event], told)

    def test_text_that_is_none(self) -> None:
        for text in ("plain", "ä", "caf\udce9"):
            told = {"id": 1, "condition": encode_text(text)}
            self.assertEqual(decode(rota.After, told).condition, text)


class Streams(unittest.TestCase):
    def test_events_in_pieces(self) -> None:
        told = '{"seq":%d,"at":"2026-11-16T09:30:01Z","kind":"started","job":1,"detail":"\u00e4"}'
        text = ": hello\n\nid: 4\nevent: started\ndata: " + told % 4 + "\n\n:\n\ndata:" + told % 5 + "\r\n\r\n" + "data: {"
        for step in (1, 3, 1000):
            stream = Events(None, Patience(1))
            self.assertNotIn("Last-Event-ID", stream.request().headers)
            octets = text.encode()
            pieces = (octets[at : at + step] for at in range(0, len(octets), step))
            seen = [event for piece in pieces for event in stream.feed(piece)]
            self.assertEqual([(event.seq, event.detail) for event in seen], [(4, "ä"), (5, "ä")])
            # What was begun is forgotten when the connection is made anew.
            self.assertEqual(stream.request().headers["Last-Event-ID"], "5")
            self.assertEqual([event.seq for event in stream.feed((f"data: {told % 6}\n\n").encode())], [6])

    def test_lines_in_pieces(self) -> None:
        octets = "eins\nzwei\r\nfünf\n\nrest".encode()
        for step in (1, 2, 1000):
            lines = LogLines(LogPieces(1, None, None, Patience(1), follow=False))
            lines.request()
            pieces = (octets[at : at + step] for at in range(0, len(octets), step))
            seen = [line for piece in pieces for line in lines.feed(piece)]
            self.assertEqual([*seen, *lines.rest()], ["eins\n", "zwei\r\n", "fünf\n", "\n", "rest"])

    def test_a_line_without_an_end_is_handed_on(self) -> None:
        lines = LogLines(LogPieces(1, None, None, Patience(1), follow=False))
        lines.request()
        seen = [line for _ in range(5) for line in lines.feed(b"x" * (LINE_LENGTH_MAX // 2))]
        self.assertEqual(sum(map(len, [*seen, *lines.rest()])), 5 * (LINE_LENGTH_MAX // 2))
        self.assertEqual(len(seen), 1)

    def test_what_was_shown_before_a_restart_is_not_shown_again(self) -> None:
        pieces = LogPieces(1, None, None, Patience(1), follow=True)
        pieces.request()
        self.assertEqual(list(pieces.feed(b"abc")), [b"abc"])
        pieces.request()
        self.assertEqual([news for piece in (b"a", b"bcd", b"e") for news in pieces.feed(piece)], [b"d", b"e"])


class Pages(unittest.TestCase):
    def pages(self, limit: Optional[int], *, finished: bool) -> tuple[list[int], list[str]]:
        """Walks through 5 jobs in pages of 2, as the daemon would give them."""
        asked: list[str] = []
        seen: list[int] = []
        listing = operations.Listing(limit=limit, finished=finished)
        while not listing.is_complete:
            steps = listing.page()
            request = next(steps)
            assert isinstance(request, Request)
            query = dict(request.query)
            asked.append(query.get("cursor", ""))
            first = int(query.get("cursor", "0"))
            ids = list(range(first + 1, min(first + 3, 6)))
            headers = {"link": f'</api/v1/jobs?cursor={ids[-1]}>; rel="next"'} if ids[-1] < 5 else {}
            if finished:
                ids = [6 - number for number in reversed(ids)]
            body = json.dumps([{**JOB, "id": number} for number in ids]).encode()
            try:
                steps.send(Response(200, headers, body))
            except StopIteration as end:
                seen.extend(job.id for job in end.value)
        return seen, asked

    def test_they_are_followed_to_the_last(self) -> None:
        self.assertEqual(self.pages(None, finished=False), ([1, 2, 3, 4, 5], ["", "2", "4"]))
        self.assertEqual(self.pages(None, finished=True), ([5, 4, 3, 2, 1], ["", "2", "4"]))
        self.assertEqual(self.pages(3, finished=False), ([1, 2, 3], ["", "2"]))
        self.assertEqual(self.pages(3, finished=True), ([5, 4, 3], ["", "2"]))


JOB: dict[str, Any] = {
    "user": "a",
    "state": "done",
    "command": ["true"],
    "cwd": "/",
    "gpus_requested": 1,
    "gpu_types": [],
    "priority": 0,
    "submitted_at": "2026-11-16T09:30:01Z",
    "attempts": 1,
    "retries": 0,
    "after": [],
    "preemptible": False,
    "claim": False,
}


class Places(unittest.TestCase):
    def test_the_state_directory_is_found_as_the_command_finds_it(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for user, variables, expected in (
                (1000, {"ROTA_STATE": "/q"}, "/q"),
                (0, {"ROTA_STATE": "/q"}, "/q"),
                (0, {"HOME": folder, "ROTA_STATE": ""}, "/var/lib/rota"),
                (1000, {"HOME": "/h", "XDG_STATE_HOME": folder}, f"{folder}/rota"),
            ):
                Path(folder, "rota").mkdir(exist_ok=True)
                Path(folder, "rota/rota.sock").touch()
                with mock.patch.dict("os.environ", variables, clear=True), mock.patch("os.geteuid", return_value=user):
                    self.assertEqual(state_dir(), Path(expected))
                    self.assertEqual(rota.Client().endpoint, Endpoint(socket=Path(expected) / "rota.sock"))

    def test_a_client_may_be_used_by_threads_and_printed(self) -> None:
        client = rota.Client("/nowhere")
        self.assertEqual(repr(client), "<Client of /nowhere/rota.sock>")
        raised = []

        def ask() -> None:
            try:
                client.status()
            except rota.Unreachable as error:
                raised.append(str(error))

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(raised), 4)
