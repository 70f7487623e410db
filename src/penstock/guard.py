"""Call, log and go on: a failure costs whoever caused it, not those who come after it.

The event loop survives an exception in a callback, but the rest of that callback is lost: the other partitions of a
round, the other waiters of a partition, the next run of a timer. Whoever calls several that have nothing to do with
each other, or must go on afterwards, calls them through `attempt`. A handler needs no such care: the dispatcher closes
the connection of a request that fails.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import ParamSpec

log = logging.getLogger("penstock.broker")

P = ParamSpec("P")


class SelfExplanatory(Exception):
    """A failure whose message says all there is to know: it is logged without a traceback."""


def attempt(what: str, function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> bool:
    """Call a function; False when it failed, which is logged as the failure of `what`."""
    try:
        function(*args, **kwargs)
    except SelfExplanatory as error:
        log.error("%s failed: %s", what, error)
        return False
    except Exception:
        log.exception("%s failed", what)
        return False
    return True
