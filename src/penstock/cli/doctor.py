"""`penstock doctor`: find out what keeps a broker or its clients from working, and what to do about it.

Each check is a function that returns findings. A finding is good, a warning or a problem; the command fails if there is
a problem. It changes and creates nothing, so it can be run while a broker is running.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import socket
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock import __version__, portable
from penstock.cli.connecting import connection_settings
from penstock.cli.options import CONTEXT_SETTINGS, Command, bootstrap_option, json_option, option
from penstock.cli.output import print_json

if TYPE_CHECKING:
    from penstock.client.types import Node

_CONNECT_SECONDS = 3.0
_FILES_NEEDED = 4096
_MAX_BROKERS = 100


class Level(StrEnum):
    GOOD = "good"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    level: Level
    subject: str
    text: str
    advice: str = ""


@click.command(cls=Command, context_settings=CONTEXT_SETTINGS)
@option(
    "--data",
    type=click.Path(path_type=Path),
    default=Path("penstock-data"),
    show_default=True,
    help="Data folder of the broker on this machine.",
)
@option(
    "--listen",
    metavar="HOST:PORT",
    help="Address that a broker is to listen on; checked to be free.",
)
@json_option
@bootstrap_option
def doctor(data: Path, listen: str | None, as_json: bool, bootstrap: str) -> None:
    """Find out what keeps a broker or its clients from working.

    Checks this machine (versions, file limits, clock), the data folder (space, permissions, kind of file system, and
    whether this version of Penstock can open it), and the cluster as it is seen from here: whether the bootstrap
    address answers, and whether every address that the brokers advertise can be reached from this machine. That last
    one is the usual reason for a client that connects and then hangs. Exits with 1 if there is a problem.

    Examples:

    \b
      penstock doctor
      penstock doctor --bootstrap broker.example:9092
      penstock doctor --data /var/lib/penstock --listen 0.0.0.0:9092
    """
    findings = [*_machine(), *_folder(data)]
    if listen is not None:
        findings.append(_port(listen))
    findings += asyncio.run(_cluster(bootstrap))
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        _print(findings)
    if any(finding.level is Level.PROBLEM for finding in findings):
        raise click.exceptions.Exit(1)


# -- this machine ------------------------------------------------------------------------------------------------------


def _machine() -> Iterator[Finding]:
    yield Finding(Level.GOOD, "Penstock", __version__)
    version = ".".join(str(part) for part in sys.version_info[:3])
    if find_spec("uvloop") is not None:
        yield Finding(Level.GOOD, "Python", f"{version} with uvloop")
    else:
        yield Finding(
            Level.WARNING, "Python", f"{version} without uvloop: a broker is slower", "Install it: pip install uvloop"
        )
    yield from _file_limit()
    yield from _clock()


def _file_limit() -> Iterator[Finding]:
    try:
        import resource
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    shown = "unlimited" if soft == resource.RLIM_INFINITY else str(soft)
    if soft == resource.RLIM_INFINITY or soft >= _FILES_NEEDED:
        yield Finding(Level.GOOD, "open files", f"at most {shown}")
        return
    if hard != resource.RLIM_INFINITY and hard <= soft:
        advice = (
            "Raise the hard limit: LimitNOFILE= with systemd, --ulimit nofile=4096:4096 with docker and podman, "
            "/etc/security/limits.conf for logins"
        )
    else:
        most = _FILES_NEEDED if hard == resource.RLIM_INFINITY else min(hard, _FILES_NEEDED)
        advice = f"Before starting the broker: ulimit -n {most} (systemd: LimitNOFILE=)"
    yield Finding(
        Level.WARNING,
        "open files",
        f"at most {shown}: each connection and each written partition takes one or more",
        advice,
    )


def _clock() -> Iterator[Finding]:
    """Whether the kernel says that somebody keeps the clock right."""
    synchronized = _clock_is_synchronized()
    if synchronized is None:
        return
    if synchronized:
        yield Finding(Level.GOOD, "clock", "synchronized")
    else:
        yield Finding(
            Level.WARNING,
            "clock",
            "the kernel does not report that it is synchronized: timestamps, retention and TLS depend on it",
            "Run a time service such as chrony or systemd-timesyncd (in a container: on its host)",
        )


def _clock_is_synchronized() -> bool | None:
    """None where the platform cannot say."""
    import ctypes

    adjtimex = portable.c_function("adjtimex")
    if adjtimex is None:
        return None
    query = ctypes.create_string_buffer(512)  # struct timex, all zeros: change nothing
    state = adjtimex(query)
    unsynchronized = 5  # TIME_ERROR
    return None if state < 0 else bool(state != unsynchronized)


# -- the data folder ---------------------------------------------------------------------------------------------------


def _folder(data: Path) -> Iterator[Finding]:
    subject = f"data folder {data}"
    # os.path, not Path: what may not be looked at is as good as absent, and the folder that hides it is the finding.
    if os.path.exists(data) and not os.path.isdir(data):
        yield Finding(Level.PROBLEM, subject, "is not a folder", "Name another one with --data")
        return
    nearest = data.absolute()
    while not os.path.exists(nearest):
        nearest = nearest.parent
    if not nearest.is_dir():
        yield Finding(Level.PROBLEM, subject, f"{nearest} is a file, not a folder", "Name another one with --data")
        return
    if not os.access(nearest, os.W_OK | os.X_OK):
        owner = _owner(nearest)
        yield Finding(
            Level.PROBLEM,
            subject,
            f"{nearest} cannot be written by this user; it belongs to {owner}",
            f"Run as {owner}, or: chown -R {_me()} {nearest}",
        )
        return
    if os.path.isdir(data) and (foreign := _foreign_file(data)) is not None:
        yield Finding(
            Level.WARNING,
            subject,
            f"{foreign} belongs to {_owner(foreign)}: a broker that runs as {_me()} may not write it",
            f"chown -R {_me()} {data}",
        )
    if os.path.isdir(data):
        yield from _contents(subject, data)
    yield from _space(subject, nearest)
    kind = _file_system(nearest)
    if kind in {"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs"}:
        yield Finding(
            Level.WARNING,
            subject,
            f"is on a network file system ({kind}), whose locks and syncs promise less than a disk's",
            "Keep it on a local disk",
        )
    elif kind in {"tmpfs", "ramfs"}:
        yield Finding(Level.WARNING, subject, f"is in memory ({kind}): a reboot loses everything", "Keep it on a disk")


def _contents(subject: str, data: Path) -> Iterator[Finding]:
    """Whether a broker of this version would start on what is in the folder."""
    from penstock.broker.cluster_folder import CLUSTER_FILE, EMBEDDED_CATALOG, check_embedded
    from penstock.catalog.contract import CatalogError
    from penstock.catalog.schema import check_file

    catalog = data / EMBEDDED_CATALOG
    try:
        if not (data / CLUSTER_FILE).exists():
            check_embedded(data)
        if catalog.exists():
            check_file(str(catalog))
    except CatalogError as error:
        text, _, advice = str(error).removeprefix(f"{data} ").partition(": ")
        yield Finding(Level.PROBLEM, subject, text, f"{advice[:1].upper()}{advice[1:]}")
    except OSError as error:
        yield Finding(
            Level.PROBLEM, subject, f"{catalog} cannot be read: {error.strerror}", "Run as the user of the broker"
        )


def _space(subject: str, folder: Path) -> Iterator[Finding]:
    space = portable.disk_space(folder)
    text = f"{_bytes(space.usable_bytes)} of {_bytes(space.total_bytes)} free"
    if space.is_low:
        yield Finding(
            Level.WARNING,
            subject,
            f"only {text}; a broker whose disk is full refuses to store records",
            "Free some space, or keep less: penstock config set topic NAME retention.bytes=…",
        )
    else:
        yield Finding(Level.GOOD, subject, text)


def _foreign_file(data: Path) -> Path | None:
    """A file at the top of the folder that belongs to somebody else."""
    if not hasattr(os, "geteuid"):
        return None
    me = os.geteuid()
    return next((entry for entry in sorted(data.iterdir()) if entry.lstat().st_uid != me), None)


def _owner(path: Path) -> str:
    try:
        return path.owner()
    except (KeyError, NotImplementedError, OSError):
        return f"user {path.stat().st_uid}"


def _me() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.geteuid())


def _file_system(folder: Path) -> str:
    """The kind of file system that a folder is on; empty where that cannot be found out."""
    try:
        mounts = Path("/proc/self/mounts").read_text().splitlines()
    except OSError:
        return ""
    path = folder.resolve()
    found, depth = "", -1
    for line in mounts:
        _, mounted, kind, *_ = line.split()
        mount = Path(mounted.replace("\\040", " "))
        if (path == mount or mount in path.parents) and len(mount.parts) >= depth:
            found, depth = kind, len(mount.parts)
    return found


def _port(listen: str) -> Finding:
    subject = f"address {listen}"
    host, colon, port = listen.rpartition("://")[2].rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        return Finding(Level.PROBLEM, subject, "is not HOST:PORT", "For example: --listen 0.0.0.0:9092")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host.strip("[]") or None, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except socket.gaierror as error:
        return Finding(Level.PROBLEM, subject, f"the host is unknown: {error.strerror}", "Correct the name")
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return Finding(
                Level.PROBLEM, subject, "another process listens there", f"See which one: ss -ltnp 'sport = :{port}'"
            )
        if error.errno == errno.EADDRNOTAVAIL:
            return Finding(
                Level.PROBLEM,
                subject,
                "is not an address of this machine",
                "Listen on one that is (0.0.0.0 is all of them), and name this one in --advertise",
            )
        if error.errno == errno.EACCES:
            return Finding(Level.PROBLEM, subject, "may not be used by this user", "Take a port above 1023")
        return Finding(Level.PROBLEM, subject, f"cannot be used: {error.strerror}", "Take another one")
    return Finding(Level.GOOD, subject, "is free")


# -- the cluster, seen from here ---------------------------------------------------------------------------------------


async def _cluster(bootstrap: str) -> list[Finding]:
    from penstock.cli.failures import explain
    from penstock.client.config import parse_addresses

    settings = connection_settings(bootstrap)
    named = str(settings["bootstrap_servers"])
    findings: list[Finding] = []
    for host, port in parse_addresses(named):
        problem = await _unreachable(host, port)
        if problem is not None:
            advice = (
                "Is a broker running? Start one: penstock serve"
                if _is_here(host)
                else "Correct --bootstrap, or see that the broker runs and that no firewall is in between"
            )
            findings.append(Finding(Level.PROBLEM, f"bootstrap {host}:{port}", problem, advice))
    if findings and len(findings) == len(parse_addresses(named)):
        return findings
    try:
        nodes = await _nodes(settings)
    except Exception as error:
        text = explain(error, named)
        if text is None:
            raise
        first, _, rest = text.partition("\n")
        return [*findings, Finding(Level.PROBLEM, f"bootstrap {named}", first, rest.strip())]
    findings.append(Finding(Level.GOOD, f"bootstrap {named}", f"answers, and knows {_count(len(nodes), 'broker')}"))
    went_elsewhere = not all(_is_here(host) for host, _ in parse_addresses(named))
    advertised = (_advertised(node, went_elsewhere=went_elsewhere) for node in nodes[:_MAX_BROKERS])
    return [*findings, *await asyncio.gather(*advertised)]


async def _nodes(settings: dict[str, object]) -> list[Node]:
    from penstock.client.admin import Admin

    async with Admin(
        settings, client_id="penstock-doctor", default_api_timeout_ms=10_000, socket_connection_setup_timeout_ms=5_000
    ) as admin:
        return sorted((await admin.describe_cluster()).nodes, key=lambda node: node.node_id)


async def _advertised(node: Node, *, went_elsewhere: bool) -> Finding:
    """Whether clients on this machine can follow the address that a broker advertises."""
    subject = f"broker {node.node_id} at {node.host}:{node.port}"
    problem = await _unreachable(node.host, node.port)
    if _is_here(node.host) and went_elsewhere:
        return Finding(
            Level.PROBLEM,
            subject,
            "advertises an address of the loopback interface, which leads clients on other machines to themselves",
            f"Start that broker with --advertise HOST:{node.port}, with the name that clients use",
        )
    if problem is not None:
        return Finding(Level.PROBLEM, subject, f"is advertised and {problem}", _reach_advice(node.host, node.port))
    return Finding(Level.GOOD, subject, "can be reached from here")


def _reach_advice(host: str, port: int) -> str:
    return (
        f"Clients have to resolve {host} and reach port {port}: correct the broker's --advertise, "
        "the name service or the firewall"
    )


async def _unreachable(host: str, port: int) -> str | None:
    """Why no connection can be made; None if one can."""
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(host, port)
    except socket.gaierror as error:
        return f"the name {host} cannot be resolved ({error.strerror})"
    except TimeoutError:
        return f"does not answer within {_CONNECT_SECONDS:.0f} seconds"
    except OSError as error:
        refused = error.errno == errno.ECONNREFUSED or "Connect call failed" in str(error)
        return "refuses connections" if refused else f"cannot be reached ({error.strerror or error})"
    writer.close()
    return None


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


# -- printing ----------------------------------------------------------------------------------------------------------

_MARKS = {Level.GOOD: ("ok", "green"), Level.WARNING: ("warning", "yellow"), Level.PROBLEM: ("PROBLEM", "red")}


def _print(findings: list[Finding]) -> None:
    for finding in findings:
        mark, color = _MARKS[finding.level]
        click.echo(f"{click.style(mark.ljust(8), fg=color)} {finding.subject}: {finding.text}")
        for line in finding.advice.splitlines():
            click.echo(f"{'':8}   {line.strip()}")
    problems = sum(finding.level is Level.PROBLEM for finding in findings)
    warnings = sum(finding.level is Level.WARNING for finding in findings)
    click.echo(f"{_count(problems, 'problem')}, {_count(warnings, 'warning')}")


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def _bytes(number: int) -> str:
    value = float(number)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"
