"""Over the network: by URL, with a token."""

from __future__ import annotations

import asyncio
import ssl
import tempfile
import unittest
from pathlib import Path
from typing import Any

import rota

from .daemon import DaemonTest


class Network(DaemonTest):
    arguments = ("--port", "0")

    def setUp(self) -> None:
        super().setUp()
        self.url = (self.daemon.state / "http").read_text().strip()
        self.token = (self.daemon.state / "token").read_text().strip()

    def test_everything_but_claims_works_as_on_the_socket(self) -> None:
        client = rota.Client(url=self.url, token=self.token)
        job = client.submit("echo hello")
        self.assertTrue(client.wait(job).is_done)
        self.assertEqual(list(client.logs(job, follow=True)), ["hello\n"])
        self.assertEqual(next(iter(client.events(0))).job, job.id)
        with self.assertRaisesRegex(ValueError, "over the network nobody can be tied to a process"):
            client.claim()
        self.assertNotIn(self.token, repr(client) + repr(client.endpoint))

        async def the_same() -> None:
            other = rota.AsyncClient(url=self.url, token=self.token)
            self.assertEqual((await other.job(job)).state, "done")
            self.assertEqual([line async for line in other.logs(job)], ["hello\n"])

        asyncio.run(the_same())

    def test_without_a_token_or_with_a_wrong_one(self) -> None:
        for token in (None, "wrong"):
            client = rota.Client(url=self.url, token=token)
            with self.assertRaises(rota.Unauthorized) as caught:
                client.gpus()
            self.assertEqual((caught.exception.type, caught.exception.status), ("unauthorized", 401))
            with self.assertRaises(rota.Unauthorized):
                next(iter(client.events()))

    def test_a_body_that_is_too_large_is_refused_in_words(self) -> None:
        for client in (rota.Client(url=self.url, token=self.token), self.client):
            with self.assertRaises(rota.BadInput) as caught:
                client.submit(["true", "x" * (20 << 20)])
            self.assertEqual(caught.exception.status, 413)

    def test_nobody_is_there(self) -> None:
        self.daemon.kill()
        with self.assertRaisesRegex(rota.Unreachable, "no daemon on 127.0.0.1:"):
            rota.Client(url=self.url, token=self.token).status()

    def test_tls_with_whom_it_is_not_spoken(self) -> None:
        secure = self.url.replace("http://", "https://")
        with self.assertRaises(rota.Unreachable):
            rota.Client(url=secure, token=self.token, tls=ssl.create_default_context()).status()


class Names(unittest.TestCase):
    def test_what_cannot_be_meant_is_said(self) -> None:
        wrong: list[tuple[dict[str, Any], str]] = [
            ({"url": "gpu1:8800"}, "is not like"),
            ({"url": "ftp://gpu1"}, "is not like"),
            ({"state": "/tmp/q", "url": "http://gpu1"}, "give one of them"),
            ({"token": "x"}, "go with `url`"),
            ({"url": "http://gpu1", "token": "x\n"}, "line end"),
        ]
        for arguments, message in wrong:
            with self.assertRaisesRegex(ValueError, message):
                rota.Client(**arguments)

    def test_a_socket_of_nobody(self) -> None:
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(rota.Unreachable, folder):
            rota.Client(Path(folder)).status()
