"""`python -m bench.handshakes HOST PORT COUNT CA [CERTIFICATE KEY]`: complete TLS handshakes, one after the other.

Each is a new session, and ends when the broker has answered ApiVersions: only then has it read the client's last
message of the handshake. Prints the seconds that all of them took.
"""

from __future__ import annotations

import socket
import ssl
import sys
import time

from penstock.wire import messages as m
from penstock.wire.frames import request_frame

HELLO = b"".join(request_frame(m.ApiVersionsRequest(), 0, 1, None))


def shake_hands(context: ssl.SSLContext, host: str, port: int) -> None:
    with (
        socket.create_connection((host, port), timeout=20) as connection,
        context.wrap_socket(connection, server_hostname=host) as secured,
    ):
        secured.sendall(HELLO)
        if not secured.recv(65536):
            raise ConnectionError("the broker closed the connection instead of answering")


def main() -> None:
    host, port, count, authority, *identity = sys.argv[1:]
    context = ssl.create_default_context(cafile=authority)
    if identity:
        context.load_cert_chain(*identity)
    began = time.monotonic()
    for _ in range(int(count)):
        shake_hands(context, host, int(port))
    print(time.monotonic() - began)


if __name__ == "__main__":
    main()
