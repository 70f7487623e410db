"""What Spark sees of a Python process that was forked and not started: this script, run in its place.

It hands its arguments, environment, folder, input and outputs to the process that `forking` keeps, and ends when the
one that was forked ends. If that is not to be had, it becomes the interpreter that it stands for. It imports nothing
that takes time; it runs without site-packages and must not import from this package.
"""

from __future__ import annotations

import os
import sys

_PATIENCE_S = 20.0


def main() -> None:
    code = _forked(os.environ.pop("PENSTOCK_SPARK_FORKING", ""))
    if code is None:
        os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
    os._exit(code)


def _forked(path: str) -> int | None:
    """The exit code of the process that was forked; None when there was none."""
    import _socket

    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.settimeout(_PATIENCE_S)
    try:
        connection.connect(path)
        handed = [0, 1, 2]
        parts = [os.getcwd(), str(len(sys.argv) - 1), *sys.argv[1:]]
        parts += [f"{name}={value}" for name, value in os.environ.items()]
        data = "\0".join(parts).encode("utf-8", "surrogateescape")
        rights = b"".join(number.to_bytes(4, sys.byteorder) for number in handed)
        connection.sendmsg([len(data).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
        connection.sendall(data)
        if connection.recv(1) != b"y":
            return None
        connection.settimeout(None)
    except OSError:
        return None
    # Spark keeps the other ends of these; who holds them here would keep it from seeing that the process has ended.
    for number in handed:
        os.close(number)
    try:
        code = connection.recv(1)
    except OSError:
        code = b""
    return code[0] if code else 1


if __name__ == "__main__":
    main()
