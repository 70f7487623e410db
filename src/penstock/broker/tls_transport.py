"""A transport that encrypts: TLS between a connection and its socket.

OpenSSL works in memory here. What one `recv` brings is decrypted record by record straight into the connection's
buffer, and what is sent is encrypted in pieces of up to 256 KiB, each of which is one `send`. A socket that OpenSSL
reads by itself would cost two system calls for each record of 16 KiB.

Reading. Bytes that were received but did not fit into the connection's buffer are shown by no file descriptor, so the
reader is called again soon.

Writing. At most one encrypted piece waits for the socket; while it does, nothing more is taken. The head of a response
is held back until the file range behind it fills the record. A transport that is closed while a piece waits stays in
the background until the peer has taken it, for some seconds.

Handshakes. Each step computes for a part of a millisecond, so the steps of many connections take turns with everything
else on the event loop. Nothing is allocated for a connection before its first byte has arrived.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import cast

from penstock import portable
from penstock.broker.bounded_log import BoundedLog
from penstock.broker.file_range import FileRange
from penstock.broker.tls import TlsServer
from penstock.broker.transport import HandshakeRefused
from penstock.security.principal_mapping import NoRuleApplies
from penstock.security.principals import Principal

log = logging.getLogger("penstock.broker")

PIECE_BYTES = 256 << 10
_RECEIVED_BYTES = 256 << 10
_HANDSHAKE_BYTES = 16 << 10
_HELD_BYTES = 16 << 10
_MAX_UNASKED_BYTES = 64 << 10  # what a peer may have the transport answer by itself without reading it
_STEPS_AT_ONCE = 4
_LINGER_SECONDS = 5.0
_FIRST_BYTE = 0x16  # of a record that begins a handshake


class TlsSupport:
    """What the TLS connections of a listener share: certificates, buffers, turns at handshakes, a bounded log."""

    def __init__(self, server: TlsServer, loop: asyncio.AbstractEventLoop) -> None:
        self.server = server
        self.log = BoundedLog(log, loop.time, "TLS connections were refused or closed")
        self.received = memoryview(bytearray(_RECEIVED_BYTES))
        self.piece = memoryview(bytearray(PIECE_BYTES))
        self._loop = loop
        self._waiting: deque[Callable[[], None]] = deque()

    def take_turn(self, step: Callable[[], None]) -> None:
        """Do a step of a handshake soon; each connection has one at most."""
        if not self._waiting:
            self._loop.call_soon(self._work)
        self._waiting.append(step)

    def _work(self) -> None:
        for _ in range(min(_STEPS_AT_ONCE, len(self._waiting))):
            self._waiting.popleft()()
        if self._waiting:
            self._loop.call_soon(self._work)


class TlsTransport:
    def __init__(
        self, sock: socket.socket, peer: tuple[str, int], loop: asyncio.AbstractEventLoop, support: TlsSupport
    ) -> None:
        self.peer = peer[0], peer[1]
        self._socket = sock
        self._fd = sock.fileno()
        self._loop = loop
        self._support = support
        self._tls: ssl.SSLObject | None = None
        self._incoming: ssl.MemoryBIO
        self._outgoing: ssl.MemoryBIO
        self._is_secured = False
        self._is_stepping = False
        self._is_closed = False
        self._has_failed = False
        self._is_refused = False
        self._has_ended = False
        self._secured: Callable[[Principal], object] | None = None
        self._reader: Callable[[], object] | None = None
        self._writer: Callable[[], object] | None = None
        self._watches_reading = False
        self._watches_writing = False
        self._is_poked = False
        self._held: bytes = b""
        self._unsent: memoryview | None = None

    # -- the connection's side -------------------------------------------------------------------------------------

    def when_secured(self, callback: Callable[[Principal], object], /) -> None:
        self._secured = callback

    @property
    def has_unsent(self) -> bool:
        return self._unsent is not None

    def receive_into(self, buffer: memoryview, size: int = 0, /) -> int:
        if not self._is_secured:
            if self._is_refused:
                raise HandshakeRefused
            if self._has_failed:
                raise ConnectionAbortedError
            raise BlockingIOError
        assert self._tls is not None
        limit = size or len(buffer)
        filled = self._decrypt(buffer, 0, limit)
        if filled < limit:
            try:
                received = self._socket.recv_into(self._support.received)
            except BlockingIOError:
                if filled:
                    return filled
                raise
            if not received:
                return filled
            self._incoming.write(self._support.received[:received])
            filled = self._decrypt(buffer, filled, limit)
        if self._outgoing.pending:
            self._answer_unasked()
        if filled == limit and self._has_more():
            self._poke()
        if not filled and not self._has_ended:
            raise BlockingIOError
        return filled

    def _decrypt(self, buffer: memoryview, filled: int, limit: int) -> int:
        """Decrypt what has arrived into the buffer, one record at a time; returns how far it is filled."""
        assert self._tls is not None
        read = cast("Callable[[int, memoryview], int]", self._tls.read)
        try:
            while filled < limit:
                got = read(limit - filled, buffer[filled:])
                if not got:
                    self._has_ended = True
                    break
                filled += got
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self._support.log.warning("closed the connection of %s: %s", self.peer[0], _reason(error))
            raise ConnectionAbortedError from error
        return filled

    def _has_more(self) -> bool:
        assert self._tls is not None
        return bool(self._incoming.pending or self._tls.pending())

    def send(self, buffers: Sequence[bytes | memoryview], more: bool, /) -> int:
        self._make_room()
        if len(buffers) == 1 and not self._held:
            data: bytes | memoryview = buffers[0]
            if len(data) > PIECE_BYTES:
                data = memoryview(data)[:PIECE_BYTES]
        else:
            data = self._joined(buffers)
        taken = len(data) - len(self._held)
        if more and len(data) <= _HELD_BYTES:
            self._held = bytes(data)
        else:
            self._encrypt(data)
        return taken

    def _joined(self, buffers: Sequence[bytes | memoryview]) -> memoryview:
        """What is held back and what follows it, up to a piece."""
        piece, at = self._support.piece, len(self._held)
        piece[:at] = self._held
        for each in buffers:
            end = at + len(each)
            if end > PIECE_BYTES:
                piece[at:] = each[: PIECE_BYTES - at]
                return piece
            piece[at:end] = each
            at = end
        return piece[:at]

    def send_file(self, part: FileRange, /) -> int:
        self._make_room()
        piece, at = self._support.piece, len(self._held)
        piece[:at] = self._held
        got = portable.read_into_at(part.file.fd, piece[at : at + min(part.size, PIECE_BYTES - at)], part.position)
        if got:
            self._encrypt(piece[: at + got])
        return got

    def _make_room(self) -> None:
        if self._has_failed:
            raise ConnectionAbortedError
        if not self._is_secured:
            raise BlockingIOError
        if self._unsent is not None and not self._send_unsent():
            raise BlockingIOError

    def _encrypt(self, data: bytes | memoryview) -> None:
        assert self._tls is not None
        self._tls.write(data)
        self._held = b""
        self._push()

    def _push(self) -> None:
        """Send what is encrypted, after what waits already; what the socket does not take waits."""
        data = self._outgoing.read()
        if self._unsent is not None:
            self._unsent = memoryview(bytes(self._unsent) + data)
            return
        try:
            sent = self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        if sent < len(data):
            self._unsent = memoryview(data)[sent:]
            self._watch()

    def _send_unsent(self) -> bool:
        """Send what waits; whether nothing does any more."""
        assert self._unsent is not None
        try:
            sent = self._socket.send(self._unsent)
        except (BlockingIOError, InterruptedError):
            return False
        if sent < len(self._unsent):
            self._unsent = self._unsent[sent:]
            return False
        self._unsent = None
        if self._outgoing.pending:
            self._push()
        return self._unsent is None

    def _answer_unasked(self) -> None:
        """Send what TLS answers by itself, such as new keys; a peer that asks without reading is cut off."""
        if self._unsent is None:
            self._push()
        elif self._outgoing.pending > _MAX_UNASKED_BYTES:
            raise ConnectionAbortedError

    # -- readiness -------------------------------------------------------------------------------------------------

    def add_reader(self, callback: Callable[[], object], /) -> None:
        self._reader = callback
        self._watch()
        if self._has_failed or (self._is_secured and self._has_more()):
            self._poke()

    def remove_reader(self) -> None:
        self._reader = None
        self._watch()

    def add_writer(self, callback: Callable[[], object], /) -> None:
        self._writer = callback
        self._watch()

    def remove_writer(self) -> None:
        self._writer = None
        self._watch()

    def _watch(self) -> None:
        """Have the event loop call back for just what is waited for."""
        is_reading = not self._is_closed and not self._has_failed
        is_reading = is_reading and (self._reader is not None if self._is_secured else not self._is_stepping)
        is_writing = self._unsent is not None or self._writer is not None
        if is_reading != self._watches_reading:
            self._watches_reading = is_reading
            if is_reading:
                self._loop.add_reader(self._fd, self._on_readable)
            else:
                self._loop.remove_reader(self._fd)
        if is_writing != self._watches_writing:
            self._watches_writing = is_writing
            if is_writing:
                self._loop.add_writer(self._fd, self._on_writable)
            else:
                self._loop.remove_writer(self._fd)

    def _on_readable(self) -> None:
        if not self._is_secured:
            self._is_stepping = True
            self._watch()
            self._support.take_turn(self._step)
        elif self._reader is not None:
            self._reader()

    def _on_writable(self) -> None:
        try:
            if self._unsent is not None and not self._send_unsent():
                return
        except OSError:
            self._unsent = None
            self._fail()
            return
        if self._is_closed:
            self._release()
        elif self._writer is not None:
            self._writer()
        else:
            self._watch()

    def _poke(self) -> None:
        if not self._is_poked:
            self._is_poked = True
            self._loop.call_soon(self._on_poked)

    def _on_poked(self) -> None:
        self._is_poked = False
        if self._reader is not None:
            self._reader()

    # -- the handshake ---------------------------------------------------------------------------------------------

    def _step(self) -> None:
        """Take the next step of the handshake with what the client has sent."""
        self._is_stepping = False
        if self._is_closed:
            return
        support, host = self._support, self.peer[0]
        try:
            received = self._socket.recv_into(support.received, _HANDSHAKE_BYTES)
            if not received:
                self._fail()
                return
            if self._tls is None:
                self._begin(support.received[0])
            self._incoming.write(support.received[:received])
            self._shake_hands()
        except (BlockingIOError, InterruptedError):
            self._watch()
        except (ssl.SSLError, NoRuleApplies, ValueError) as error:
            support.log.warning("refused the TLS handshake of %s: %s", host, _reason(error))
            self._is_refused = True
            self._fail()
        except OSError:
            self._fail()

    def _begin(self, first_byte: int) -> None:
        if first_byte != _FIRST_BYTE:
            raise ValueError("the client does not speak TLS; its security.protocol must be SSL or SASL_SSL here")
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = self._support.server.context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    def _shake_hands(self) -> None:
        assert self._tls is not None
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._push()
            raise BlockingIOError from None
        except ssl.SSLError:
            self._push()  # the alert that tells the client what is wrong
            raise
        principal = self._support.server.principal_of(self._tls.getpeercert(binary_form=True))
        self._is_secured = True
        self._push()
        self._acknowledge()
        if self._secured is not None:
            self._secured(principal)
        self._watch()
        if self._has_more():
            self._poke()

    def _acknowledge(self) -> None:
        """Acknowledge the end of the handshake at once: a client with Nagle's algorithm holds its request until then.

        In TLS 1.3 nothing is sent that would carry the acknowledgement, and the kernel puts it off for 40 ms.
        """
        if sys.platform == "linux":
            with suppress(OSError):
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)

    # -- the end ---------------------------------------------------------------------------------------------------

    def _fail(self) -> None:
        """Let the connection find out: whatever it tries next is refused."""
        self._has_failed = True
        self._is_secured = False
        if self._is_closed:
            self._release()
            return
        self._watch()
        self._poke()

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._reader = self._writer = None
        if self._is_secured and self._tls is not None:
            try:
                self._tls.unwrap()
            except (ssl.SSLError, OSError):
                pass  # the peer's own farewell is not waited for
            try:
                self._push()
            except OSError:
                self._unsent = None
        if self._unsent is None:
            self._release()
        else:
            self._watch()
            self._loop.call_later(_LINGER_SECONDS, self._release)

    def _release(self) -> None:
        if self._fd >= 0:
            self._unsent = None
            self._watch()
            self._fd = -1
            self._socket.close()
            self._is_secured, self._has_failed = False, True
            self._secured = None
            self._tls = None  # tens of KB that the garbage collector does not see


def _reason(error: Exception) -> str:
    """What went wrong, without OpenSSL's line numbers."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    reason = error.reason if isinstance(error, ssl.SSLError) else None
    return reason.replace("_", " ").lower() if reason else str(error)
