"""One client connection: frames in, responses out in request order, over any transport.

The transport does not block and calls back when it is ready (`broker.transport`). A response may contain ranges of
segment files, which a plain socket sends with `sendfile`, so that their bytes never enter this process.

Reading. All connections of a broker share one scratch buffer. What one `recv` brings is cut into frames and handled at
once; only a frame that has not arrived whole is kept, in a buffer of the connection that the rest is received into
directly. Pipelined requests that arrive together are handled together and answered with one `send`.

Writing. Each request takes a slot in `_slots` when it arrives. A slot is filled when its response is ready, and the
filled slots at the front are what may be sent.

Cold data. A range that is not in the page cache would stall the event loop as it is sent, and every client with it. So
a range is probed first without blocking (`FileRange.is_cached`); if a part of it is on disk only, a thread reads it
into the cache while the others are served.

Bounds. A connection is not read, and no further request of it is handled, while it has `MAX_IN_FLIGHT` unanswered
requests or more than `MAX_QUEUED_BYTES` of responses in memory. Responses are counted when they are encoded, whether
they can be sent yet or not, and until the kernel has taken them; a file range counts as the handle that it is. What was
received with the request that reached the bound is set aside, one scratch buffer at most. Reading resumes at half of
the bound. A frame larger than `socket.request.max.bytes` closes the connection. The buffer that is kept for the next
large frame is given back when the connection falls silent.

Muting. A client that exceeds a quota is made to wait (`broker.quotas`): its connection is not read, and no request that
has arrived is handled, until a timer ends the mute. Responses go out as ever. `hold` does the same until `release`:
what a client has sent behind a message that decides who it is waits for that decision.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from itertools import count
from typing import TYPE_CHECKING

from penstock.broker.file_range import FileRange
from penstock.broker.frame_buffer import new_buffer
from penstock.broker.transport import HandshakeRefused
from penstock.security.principals import ANONYMOUS, Principal
from penstock.wire.codec import MalformedMessage
from penstock.wire.frames import SIZE
from penstock.wire.messages import Message

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.broker.authentication import Authentication
    from penstock.broker.dispatch import Dispatcher
    from penstock.broker.listeners import Address
    from penstock.broker.request_times import Mark
    from penstock.broker.requests import AnyRequest
    from penstock.broker.transport import Transport
    from penstock.broker.world import Timer, World

MAX_IN_FLIGHT = 1024
MAX_QUEUED_BYTES = 64 << 20
SCRATCH_BYTES = 1 << 20
_HEAD_BYTES = 16 << 10
_SPARE_BYTES = 4 << 20
_SMALLEST_BUFFER = 4096
_MAX_VECTORS = 256
_REQUEST_BYTES = 8  # what every request has
_PART_BYTES = 64  # what Python needs to hold a byte string of a response
_RETRY = (BlockingIOError, InterruptedError)

UNKNOWN_SOFTWARE = ("unknown", "unknown")

_unpack_size = SIZE.unpack_from

log = logging.getLogger("penstock.broker")

_numbers = count(1)


class Connection:
    def __init__(
        self,
        transport: Transport,
        world: World,
        dispatcher: Dispatcher,
        scratch: memoryview,
        max_request_bytes: int,
        listener: Address,
    ) -> None:
        self.number = next(_numbers)
        """Connections are counted in the order in which they were accepted."""
        self.peer_host, self.peer_port = transport.peer
        self.listener_name = listener.name
        self.protocol = listener.protocol
        self.principal: Principal = ANONYMOUS
        self.authentication: Authentication | None = None
        """Where a client authenticates with SASL: how far it has come. None on other listeners."""
        self.client_id = ""
        self.software = UNKNOWN_SOFTWARE
        """The name and version of the client's software, and its client id above, as of its ApiVersions request."""
        self.on_secured: Callable[[Connection], object] | None = None
        """Called when the transport has finished its handshake."""
        self.on_refused: Callable[[Connection], object] | None = None
        """Called when the transport has refused it."""
        self.closed = False
        self.last_active = world.precise()
        """When it was last read from or written to, or a request of it handled, on the precise clock."""
        self._transport = transport
        self._receive_into = transport.receive_into
        self._send = transport.send
        self._world = world
        self._now = world.precise
        self._dispatcher = dispatcher
        self.handle_frame: Callable[[Connection, memoryview], None] = dispatcher.handle
        """Who handles the next frame: the dispatcher, once the client may send requests."""
        self._scratch = scratch
        self.max_request_bytes = max_request_bytes
        self.min_request_bytes = _REQUEST_BYTES
        self.on_partial_frame: Callable[[int], None] | None = None
        """Called with the size of a frame that has not arrived whole, before there is a buffer for it."""
        self._buffer: memoryview | None = None  # an incomplete frame; None when there is none
        self._filled = 0
        self._needed = 0
        self._spare: memoryview | None = None  # a buffer that held a large frame, for the next one
        self._set_aside: memoryview | None = None  # frames that arrived when a bound was reached
        self._slots: deque[list[object]] = deque()
        self._out: deque[object] = deque()
        self._unsent: list[Mark] = []  # of the responses in `_out`, where the times of requests are measured
        self.queued_bytes = 0
        """The memory of the responses that are not sent yet, in slots and behind them."""
        self._reading = True
        self._writing = False
        self._warming = False
        self._in_read = False
        self._resuming = False
        self._mute: Timer | None = None
        self._muted_until = 0.0
        self._held = False
        transport.when_secured(self._secured)
        transport.add_reader(self._on_readable)

    def _secured(self, principal: Principal) -> None:
        self.principal = principal
        if self.on_secured is not None:
            self.on_secured(self)

    # -- reading ---------------------------------------------------------------------------------------------------

    def _on_readable(self) -> None:
        try:
            buffer = self._buffer
            if buffer is None:
                # After a large frame the next one is likely to be large as well: read only its head here, and the
                # rest straight to where it is kept.
                view = self._scratch
                received = self._receive_into(view, _HEAD_BYTES if self._spare is not None else 0)
                filled = received
            else:
                received = self._receive_into(buffer[self._filled : self._needed])
                filled = self._filled = self._filled + received
                view = buffer
        except _RETRY:
            return
        except OSError as error:
            if isinstance(error, HandshakeRefused) and self.on_refused is not None:
                self.on_refused(self)
            self.close()
            return
        if not received:
            self.close()
            return
        self.last_active = self._now()
        self._handle_received(view, filled)

    def _handle_received(self, view: memoryview, filled: int) -> None:
        self._in_read = True
        try:
            self._handle_frames(view, filled)
        except MalformedMessage:
            self.close()
        except Exception:
            log.exception("closed the connection of %s: a request could not be handled", self.peer_host)
            self.close()
        finally:
            self._in_read = False
        if not self.closed and self._slots:
            self._flush_slots()

    def _handle_frames(self, view: memoryview, filled: int) -> None:
        position = 0
        slots = self._slots
        while filled - position >= 4:
            size: int = _unpack_size(view, position)[0]
            start = position + 4
            if size > self.max_request_bytes or size < self.min_request_bytes:
                self._dispatcher.refuse_frame(self, size)
                return
            if filled - start < size:
                break
            position = start + size
            self.handle_frame(self, view[start:position])
            if self.closed:
                return
            if self._mute is not None or self._held:
                self._set_rest_aside(view, position, filled)
                return
            if len(slots) >= MAX_IN_FLIGHT or self.queued_bytes > MAX_QUEUED_BYTES:
                self._flush_slots()
                if self.closed:
                    return
                if self._is_congested():
                    self._set_rest_aside(view, position, filled)
                    return
        self._keep_rest(view, position, filled)

    def _keep_rest(self, view: memoryview, position: int, filled: int) -> None:
        """Keep an incomplete frame in a buffer of its own, large enough for all of it."""
        rest = filled - position
        if view is self._buffer:
            if not position and filled < self._needed:
                return
            self._buffer = None
            self._spare = view if _HEAD_BYTES < len(view) <= _SPARE_BYTES else None
        elif position > _HEAD_BYTES:
            self._spare = None
        if not rest:
            return
        self._needed = needed = 4 + _unpack_size(view, position)[0] if rest >= 4 else _SMALLEST_BUFFER
        if self.on_partial_frame is not None:
            self.on_partial_frame(needed)
            if self.closed:
                return
        if self._spare is not None and self._spare is not view and len(self._spare) >= needed:
            buffer = self._spare
        else:
            buffer = new_buffer(max(needed, _SMALLEST_BUFFER))
        buffer[:rest] = view[position:filled]
        self._buffer = buffer
        self._filled = rest

    def _set_rest_aside(self, view: memoryview, position: int, filled: int) -> None:
        """Keep what was received but may not be handled yet, whole frames or not."""
        if view is self._buffer:
            self._buffer = None
        if position < filled:
            self._set_aside = memoryview(bytearray(view[position:filled]))

    def _is_congested(self) -> bool:
        return len(self._slots) >= MAX_IN_FLIGHT or self.queued_bytes > MAX_QUEUED_BYTES

    def hold(self) -> None:
        """Handle no further frame, and read nothing, until `release`."""
        self._held = True
        if self._reading:
            self._pause_reading()

    @property
    def is_held(self) -> bool:
        return self._held

    def release(self) -> None:
        self._held = False
        self._pause_or_resume_reading()

    def trim(self) -> None:
        """Give back what is kept only so that the next large frame need not ask for it."""
        self._spare = None

    def _pause_or_resume_reading(self) -> None:
        if self._reading:
            if self._is_congested():
                self._pause_reading()
        elif (
            self._mute is None
            and not self._held
            and len(self._slots) < MAX_IN_FLIGHT // 2
            and self.queued_bytes <= MAX_QUEUED_BYTES // 2
        ):
            self._resume_reading()

    def mute(self, seconds: float) -> None:
        """Do not read, and handle no request, for a while; the longest of several mutes counts."""
        until = self._now() + seconds
        if self.closed or until <= self._muted_until:
            return
        if self._mute is not None:
            self._mute.cancel()
        elif self._reading:
            self._pause_reading()
        self._muted_until = until
        self._mute = self._world.call_later(seconds, self._unmute)

    @property
    def is_muted(self) -> bool:
        return self._mute is not None

    def _unmute(self) -> None:
        self._mute = None
        self.last_active = self._now()
        self._pause_or_resume_reading()

    def _pause_reading(self) -> None:
        if not self.closed:
            self._reading = False
            self._transport.remove_reader()

    def _resume_reading(self) -> None:
        """Handle what was set aside, then read."""
        if self.closed or self._resuming:
            return
        if self._set_aside is not None:
            self._resuming = True
            self._world.call_soon(self._handle_set_aside)
        else:
            self._reading = True
            self._transport.add_reader(self._on_readable)

    def _handle_set_aside(self) -> None:
        self._resuming = False
        if self._mute is not None or self._held:
            return
        self.last_active = self._now()
        view, self._set_aside = self._set_aside, None
        if view is not None and not self.closed:
            self._handle_received(view, len(view))
            self._pause_or_resume_reading()

    # -- writing ---------------------------------------------------------------------------------------------------

    def take_slot(self) -> list[object]:
        slot: list[object] = []
        self._slots.append(slot)
        return slot

    def drop_slot(self, slot: list[object]) -> None:
        """The request of this slot is never answered; those behind it do not wait for it."""
        slots = self._slots
        if slots and slots[-1] is slot:
            slots.pop()
        else:
            # By identity: all slots that wait are equal.
            for index, each in enumerate(slots):
                if each is slot:
                    del slots[index]
                    break
        if not self._in_read and not self.closed:
            self._flush_slots()

    def fill_slot(self, slot: list[object], parts: list[object], size: int) -> None:
        """Put an encoded response into its slot; `size` is the memory that its parts hold."""
        slot.extend(parts)
        self.queued_bytes += size + _PART_BYTES * len(parts)

    def respond(self, request: AnyRequest, response: Message) -> None:
        """Encode a response into its slot and send what may be sent."""
        if self.closed:
            return
        if self._dispatcher.may_answer is not None and not self._dispatcher.may_answer():
            self.close()
            return
        try:
            self._dispatcher.encode_later(request, response)
        except Exception:
            log.exception("cannot encode %s for %s", type(response).__name__, self.peer_host)
            self.close()
            return
        if not self._in_read:
            self._flush_slots()

    def send_bare(self, slot: list[object], data: bytes) -> None:
        """Put bytes that are no response of the protocol into a slot, and send what may be sent."""
        if not self.closed:
            self.fill_slot(slot, [data], len(data))
            if not self._in_read:
                self._flush_slots()

    def _flush_slots(self) -> None:
        slots, out = self._slots, self._out
        while slots and slots[0]:
            parts = slots.popleft()
            if isinstance(parts[-1], tuple):
                self._unsent.append(parts.pop())  # type: ignore[arg-type]
            out.extend(parts)
        if out and not self._writing and not self._warming:
            self._write()
        if not self._reading or len(slots) >= MAX_IN_FLIGHT or self.queued_bytes > MAX_QUEUED_BYTES:
            self._pause_or_resume_reading()

    def _write(self) -> None:
        out = self._out
        try:
            while out:
                if isinstance(out[0], FileRange):
                    if not out[0].is_cached():
                        self._warm_up(out[0])
                        return
                    self._send_file(out[0])
                elif not self._send_bytes():
                    break
        except _RETRY:
            pass
        except OSError:
            self.close()
            return
        if out:
            if not self._writing:
                self._writing = True
                self._transport.add_writer(self._on_writable)
            return
        if self._writing:
            self._writing = False
            self._transport.remove_writer()
        if self._unsent and self._dispatcher.times is not None:
            self._dispatcher.times.sent(self._unsent)

    def _send_bytes(self) -> bool:
        """Send the byte strings at the front with one call; False when the transport took only a part of them."""
        out = self._out
        vectors: list[bytes | memoryview] = []
        total = 0
        more = False
        for part in out:
            if isinstance(part, FileRange):
                more = True  # the file range follows in the same segment
                break
            vectors.append(part)  # type: ignore[arg-type]
            total += len(part)  # type: ignore[arg-type]
            if len(vectors) == _MAX_VECTORS:
                break
        sent = self._send(vectors, more)
        if sent == total:
            self.queued_bytes -= total + _PART_BYTES * len(vectors)
            if len(vectors) == len(out):
                out.clear()
            else:
                for _ in vectors:
                    out.popleft()
            return True
        self.queued_bytes -= sent
        for part in vectors:
            if sent < len(part):
                out[0] = memoryview(part)[sent:]
                break
            sent -= len(part)
            out.popleft()
            self.queued_bytes -= _PART_BYTES
        return False

    def _send_file(self, part: FileRange) -> None:
        sent = self._transport.send_file(part)
        if sent == 0:
            raise OSError("a segment file is shorter than its index says")
        if sent == part.size:
            self._out.popleft()
            self.queued_bytes -= FileRange.HANDLE_BYTES + _PART_BYTES
        else:
            part.position += sent
            part.size -= sent

    def _warm_up(self, part: FileRange) -> None:
        """Have a thread read a range into the page cache; sending goes on when it is there."""
        if self._writing:
            self._writing = False
            self._transport.remove_writer()
        self._warming = True
        self._world.in_thread(part.warm_up).add_done_callback(self._warmed_up)

    def _warmed_up(self, done: asyncio.Future[None]) -> None:
        self._warming = False
        if not done.cancelled() and (error := done.exception()) is not None:
            log.error("closed the connection of %s: a segment cannot be read: %s", self.peer_host, error)
            self.close()
        if not self.closed:
            self._write()
            self._flush_slots()

    def _on_writable(self) -> None:
        self.last_active = self._now()
        self._write()
        if not self.closed:
            self._flush_slots()

    # -- the end ---------------------------------------------------------------------------------------------------

    @property
    def has_unsent(self) -> bool:
        return bool(self._out) or self._transport.has_unsent

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._out.clear()
        self._slots.clear()
        # What is large goes now, not when the garbage collector finds the connection and its transport.
        self._buffer = self._spare = self._set_aside = None
        if self._mute is not None:
            self._mute.cancel()
            self._mute = None
        self._transport.close()
        self._dispatcher.connection_closed(self)
