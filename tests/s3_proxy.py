"""A line between a client and an S3 server that is slow, and that breaks when it is told to."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit


class SlowLine:
    """Passes bytes on. What is sent to the server shares `bytes_per_second`."""

    def __init__(self, endpoint: str, bytes_per_second: float) -> None:
        self._target = urlsplit(endpoint).port
        self._rate = bytes_per_second
        self._lock = threading.Lock()
        self._free_at = 0.0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.sent = 0
        """Bytes from the client."""
        self.cut_at: int | None = None
        """Cut the connection over which this byte is sent."""

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _start(self, function: Callable[..., None], *arguments: object) -> None:
        threading.Thread(target=function, args=arguments, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._target))
            self._start(self._pass_on, client, server, True)
            self._start(self._pass_on, server, client, False)

    def _pass_on(self, source: socket.socket, target: socket.socket, is_upload: bool) -> None:
        try:
            while data := source.recv(65536):
                if is_upload and not self._takes(len(data)):
                    break
                target.sendall(data)
        except OSError:
            pass
        for each in (source, target):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def _takes(self, size: int) -> bool:
        with self._lock:
            self.sent += size
            if self.cut_at is not None and self.sent >= self.cut_at:
                self.cut_at = None
                return False
            self._free_at = max(self._free_at, time.monotonic()) + size / self._rate
            wait = self._free_at - time.monotonic()
        time.sleep(max(wait, 0.0))
        return True
