"""The share sessions that are open on this broker, the fetch that waits in each, and what their end leads to.

When a session ends, by a final request or with its connection, its fetch is answered and what its member held comes
back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.guard import attempt
from penstock.queues.sessions import ShareSession, ShareSessions

if TYPE_CHECKING:
    from penstock.broker.share.fetch import ShareFetch
    from penstock.broker.share.metrics import ShareMetrics
    from penstock.broker.share.windows import ShareWindows


class OpenShareSessions(ShareSessions):
    def __init__(self, windows: ShareWindows, metrics: ShareMetrics) -> None:
        super().__init__()
        self._windows = windows
        self._metrics = metrics
        self.parked: dict[ShareSession, ShareFetch] = {}

    def is_open(self, session: ShareSession) -> bool:
        return self.get(session.group_id, session.member_id) is session

    def end(self, session: ShareSession) -> None:
        if self.close(session):
            self._release(session)

    def end_all(self) -> None:
        for session in self.all():
            self.end(session)

    def connection_closed(self, connection: object) -> None:
        for session in self.disconnected(connection):
            self._metrics.session_evictions += 1
            self._release(session)

    def rules_changed(self) -> None:
        """Nobody goes on waiting for what they may not read any more."""
        for fetch in list(self.parked.values()):
            attempt("checking a share fetch against changed rules", fetch.check_rights)

    def _release(self, session: ShareSession) -> None:
        fetch = self.parked.get(session)
        if fetch is not None:
            fetch.give_up()
        for live in self._windows.of_group(session.group_id):
            attempt("releasing the records of a share session", live.release, session.member_id)
        if not self.in_group(session.group_id):
            self._windows.forget_idle(session.group_id)
