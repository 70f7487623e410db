"""Committing a stream's progress to a consumer group, beside the stream.

Nothing reads the commit back: it is there so that lag shows in every Kafka tool. So no micro-batch may wait for it, and
a group that cannot be committed to, be it for minutes, may not hold the stream up. A thread with a connection of its
own commits the newest offsets; those that became old meanwhile are left out.
"""

from __future__ import annotations

import logging
import threading

from penstock.client.security import SecurityConfig
from penstock.spark.planning import ClusterView
from penstock.spark.ranges import Offsets
from penstock.spark.security import NO_SECURITY

_log = logging.getLogger("penstock.spark")


class ProgressCommitter:
    """Commits to one group, always the newest offsets that it was handed."""

    def __init__(
        self, group_id: str, bootstrap_servers: str, client_id: str, security: SecurityConfig = NO_SECURITY
    ) -> None:
        self._group_id = group_id
        self._bootstrap_servers = bootstrap_servers
        self._client_id = client_id
        self._security = security
        self._changed = threading.Condition()
        self._wanted: Offsets = {}
        self._tried: Offsets = {}
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=f"progress of {group_id}", daemon=True)
        self._thread.start()

    def commit(self, offsets: Offsets) -> None:
        """Have the offsets committed soon."""
        with self._changed:
            self._wanted = offsets
            self._changed.notify_all()

    def settle(self, timeout_s: float) -> bool:
        """Wait until the newest offsets are committed, or could not be; whether that was in time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._tried == self._wanted, timeout_s)

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join(1.0)

    def _run(self) -> None:
        with ClusterView(self._bootstrap_servers, self._client_id, security=self._security) as view:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._is_closed or self._tried != self._wanted)
                    if self._is_closed:
                        return
                    offsets = self._wanted
                try:
                    view.commit(self._group_id, offsets)
                except Exception as error:
                    _log.warning("progress was not committed to group %s, the query goes on: %s", self._group_id, error)
                with self._changed:
                    self._tried = offsets
                    self._changed.notify_all()
