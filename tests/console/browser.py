"""Chromium through Playwright, in a thread of its own.

Playwright's synchronous interface keeps an event loop running in the thread that starts it. In pytest's own thread no
asynchronous test could start a loop afterwards, whichever module it is in. So Playwright is started and called in a
thread that runs nothing else, and what tests hold are stand-ins for its objects that pass on every call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_PATIENCE_SECONDS = 120
_PLAIN = (str, bytes, int, float, bool, type(None))


class StandIn:
    """An object of Playwright, from any thread: attributes are read, and calls are made, in Playwright's own.

    Functions that are passed to it, such as listeners, are called there too, with the objects themselves.
    """

    def __init__(self, original: Any, thread: ThreadPoolExecutor) -> None:
        self._original = original
        self._thread = thread

    def _do(self, work: Callable[[], Any]) -> Any:
        return self._wrapped(self._thread.submit(work).result(_PATIENCE_SECONDS))

    def _wrapped(self, found: Any) -> Any:
        if isinstance(found, _PLAIN):
            return found
        if isinstance(found, list):
            return [self._wrapped(each) for each in found]
        if isinstance(found, dict):
            return {key: self._wrapped(value) for key, value in found.items()}
        return StandIn(found, self._thread)

    def __getattr__(self, name: str) -> Any:
        return self._do(lambda: getattr(self._original, name))

    def __call__(self, *positional: Any, **named: Any) -> Any:
        return self._do(lambda: self._original(*map(_original, positional), **named))


def _original(argument: Any) -> Any:
    return argument._original if isinstance(argument, StandIn) else argument


@contextmanager
def chromium(path: str) -> Iterator[Browser]:
    """The browser at `path`, until the end of the block."""
    from playwright.sync_api import sync_playwright

    with ThreadPoolExecutor(1, thread_name_prefix="playwright") as thread:
        playwright = thread.submit(lambda: sync_playwright().start()).result(_PATIENCE_SECONDS)
        try:
            arguments = ["--no-sandbox", "--disable-gpu"]
            started = StandIn(playwright, thread).chromium.launch(executable_path=path, args=arguments)
            yield cast("Browser", started)
            started.close()
        finally:
            thread.submit(playwright.stop).result(_PATIENCE_SECONDS)
