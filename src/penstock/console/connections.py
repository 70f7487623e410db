"""Connections of browsers, of which those that send nothing are closed.

A connection costs its peer nothing, and a server takes only so many. So one that holds no complete request gives way to
the next when there are many, and is closed after a while in any case. Without this, a stranger who opens a few hundred
connections and sends half a request on each would keep everybody out.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST = 500
"""Requests at once, and connections."""
_ROOM = 50
_PATIENCE_SECONDS = 30.0


class Connection(H11Protocol):  # type: ignore[misc]  # not installed everywhere, and so without types
    """The server's end of a connection. Requests and answers are uvicorn's business."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._made_at = self.loop.time()
        self._seen: tuple[object] | None = None
        self._watch = self.loop.call_later(_PATIENCE_SECONDS, self._look)
        if len(self.connections) > MOST - _ROOM:
            waiting = [each for each in self.connections if each.is_waiting and not each.transport.is_closing()]
            if waiting:
                min(waiting, key=lambda each: each._made_at).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._watch.cancel()
        super().connection_lost(exc)

    @property
    def is_waiting(self) -> bool:
        """Whether the browser has to send something next: a request, or the rest of one."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def _look(self) -> None:
        """Close it if it waits for the same request as the last time."""
        waits_after = (self.cycle,) if self.is_waiting else None
        if waits_after is not None and waits_after == self._seen:
            self.transport.abort()
            return
        self._seen = waits_after
        self._watch = self.loop.call_later(_PATIENCE_SECONDS, self._look)
