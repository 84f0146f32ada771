"""A mail server that keeps what it is sent: mail_sink.py FOLDER PORT [--password USER:PASSWORD]

It takes mail after STARTTLS only, writes the certificate to trust to FOLDER/ca.pem and each mail to FOLDER/N.json, and prints its port
when it is ready. A recipient that begins with "refused" is refused for ever, one that begins with "busy" is put off the first time.
"""

import email
import email.policy
import itertools
import json
import pathlib
import ssl
import sys

import trustme
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult


class Keep:
    def __init__(self, folder):
        self.folder = folder
        self.numbers = itertools.count(1)
        self.put_off = set()

    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.startswith("refused"):
            return "550 no such person"
        if address.startswith("busy") and address not in self.put_off:
            self.put_off.add(address)
            return "451 try again later"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        letter = email.message_from_bytes(envelope.content, policy=email.policy.default)
        document = {
            "from": envelope.mail_from,
            "to": envelope.rcpt_tos,
            "is_encrypted": session.ssl is not None,
            "user": session.auth_data.login.decode() if session.auth_data else None,
            "headers": [[name, str(value)] for name, value in letter.items()],
            "body": letter.get_content(),
        }
        number = next(self.numbers)
        partial = self.folder / f"{number}.partial"
        partial.write_text(json.dumps(document))
        partial.rename(self.folder / f"{number}.json")
        return "250 kept"


def main():
    folder = pathlib.Path(sys.argv[1])
    port = int(sys.argv[2])
    expected = sys.argv[4].split(":") if sys.argv[3:4] == ["--password"] else None
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)

    def check(server, session, envelope, mechanism, data):
        given = [data.login.decode(), data.password.decode()]
        return AuthResult(success=given == expected, auth_data=data)

    class Sink(Controller):
        def factory(self):
            return SMTP(
                self.handler,
                tls_context=context,
                require_starttls=True,
                authenticator=check,
                auth_required=expected is not None,
            )

    sink = Sink(Keep(folder), hostname="localhost", port=port)
    sink.start()
    print(port, flush=True)
    sys.stdin.read()
    sink.stop()


if __name__ == "__main__":
    main()
