"""The two brokers that the benchmark and the conformance tests compare, each a child process on a free loopback port.

A peer is started, answers ApiVersions, is measured (CPU seconds and memory of its whole process tree, read from /proc)
and is stopped for sure: at the end of a `with` block, at interpreter exit, and when the harness itself is killed (the
child asks the kernel for a SIGTERM at its parent's death).

Apache Kafka comes as jars from Maven Central (`mvn dependency:copy-dependencies`), kept in $PENSTOCK_KAFKA_JARS or
~/.cache/penstock/kafka-4.3.1. It runs as one KRaft node with the JVM options that its own `kafka-server-start` sets.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from penstock.wire import messages as m
from penstock.wire.conversation import Conversation
from penstock.wire.frames import FrameBuffer, ProtocolViolation

KAFKA_VERSION = "4.3.1"
HOST = "127.0.0.1"
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 20.0
CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
PLAINTEXT = "PLAINTEXT"

# What `kafka-server-start` and `kafka-run-class` of the release pass to java.
SHIPPED_JVM_OPTIONS = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)
# For tests that only ask what Kafka answers: starts sooner and leaves the second core to others.
SMALL_JVM_OPTIONS = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

SINGLE_NODE_SETTINGS = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


class PeerError(Exception):
    """A broker or one of the tools it needs is missing or did not start; the message says what to do."""


def kafka_jars(version: str = KAFKA_VERSION) -> Path:
    """The folder of Apache Kafka's jars, fetched once."""
    folder = Path.home() / ".cache" / "penstock" / f"kafka-{version}"
    if version == KAFKA_VERSION:
        folder = Path(os.environ.get("PENSTOCK_KAFKA_JARS", folder))
    return maven_jars(Path(__file__).parent / "kafka" / "pom.xml", folder, f"kafka-clients-{version}.jar", version)


def maven_jars(pom: Path, folder: Path, expected: str, version: str = KAFKA_VERSION) -> Path:
    """`folder`, which holds the jars that `pom` depends on: fetched unless the jar named `expected` is there.

    With `version` the jars of another release of Kafka, in place of the one that the file names.
    """
    if (folder / expected).exists():
        return folder
    if shutil.which("mvn") is None:
        raise PeerError("Apache Kafka's jars are missing and so is mvn: apt-get install maven default-jdk-headless")
    with tempfile.TemporaryDirectory(prefix="kafka-jars-") as build:
        (Path(build) / "pom.xml").write_text(pom.read_text().replace(KAFKA_VERSION, version))
        print(f"fetching Apache Kafka {version} from Maven Central into {folder} ...", file=sys.stderr)
        subprocess.run(
            ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={build}/jars"],
            cwd=build,
            check=True,
        )
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(Path(build) / "jars", folder, dirs_exist_ok=True)
    return folder


def java_command(*jvm_options: str, version: str = KAFKA_VERSION) -> list[str]:
    if shutil.which("java") is None:
        raise PeerError("java is missing: apt-get install default-jdk-headless")
    return ["java", *jvm_options, "-cp", f"{kafka_jars(version)}/*"]


def free_ports(count: int) -> int:
    """The first of so many free ports in a row, below those that the system gives to connections."""
    for first in random.sample(range(20_000, 32_000), 1000):
        with ExitStack() as probes, suppress(OSError):
            for port in range(first, first + count):
                probes.enter_context(socket.socket()).bind((HOST, port))
            return first
    raise PeerError(f"no {count} ports in a row are free on {HOST}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
    return port


def die_with_parent() -> None:
    """For a child between fork and exec: the kernel ends it when the thread that started it ends."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)


def _end_as_on_interrupt() -> None:
    """A harness that is told to end (SIGTERM) takes the way of Ctrl-C, so that its brokers are stopped and cleared."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


def answers_api_versions(port: int, timeout_s: float = 2.0, tls: ssl.SSLContext | None = None) -> bool:
    """One ApiVersions v0 request over a fresh connection; True when the answer is a response to it."""
    conversation = Conversation(f"{HOST}:{port}", None)
    frames = FrameBuffer()
    try:
        with ExitStack() as stack:
            connection = stack.enter_context(socket.create_connection((HOST, port), timeout=timeout_s))
            if tls is not None:
                connection = stack.enter_context(tls.wrap_socket(connection, server_hostname=HOST))
            connection.sendall(b"".join(conversation.send(m.ApiVersionsRequest(), m.ApiVersionsResponse, 0)))
            while count := connection.recv_into(frames.get_buffer()):
                for frame in frames.received(count):
                    answer = conversation.answered(frame).decode(frame)
                    return isinstance(answer, m.ApiVersionsResponse) and answer.error_code == 0
    except (OSError, ProtocolViolation):
        pass
    return False


class Peer:
    """One broker process. Subclasses say how it is prepared and started."""

    name = "broker"

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        folder: Path | None = None,
        *,
        protocol: str = PLAINTEXT,
        tls: ssl.SSLContext | None = None,
        more_listeners: Mapping[str, str] | None = None,
    ) -> None:
        self.settings = dict(settings or {})
        self.protocol = protocol
        self.protocols = {protocol: protocol, **(more_listeners or {})}
        """The security protocol of each listener by its name; the first, on `port`, is named like its protocol."""
        self.more_ports = {name: free_port() for name in more_listeners or {}}
        self.client_properties: dict[str, str] = {}
        """What librdkafka needs to be let in; an administrator may need something else."""
        self.admin_properties: dict[str, str] = {}
        self._tls = tls
        self._owns_folder = folder is None
        self.folder = folder or Path(
            tempfile.mkdtemp(prefix=f"bench-{self.name}-", dir=os.environ.get("PENSTOCK_BENCH_DIR"))
        )
        self.port = free_port()
        self.start_ms = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    def address(self, listener: str) -> str:
        return f"{HOST}:{self.more_ports.get(listener, self.port)}"

    @property
    def log_file(self) -> Path:
        return self.folder / "broker.out"

    def prepare(self) -> None:
        """What an administrator does once before the first start."""

    def command(self) -> list[str]:
        raise PeerError(f"{type(self).__name__} does not say how it is started")

    def start(self) -> Self:
        _end_as_on_interrupt()
        self.prepare()
        with self.log_file.open("ab") as output:
            started = time.monotonic()
            self._process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        atexit.register(self.stop)
        while not answers_api_versions(self.port, tls=self._tls):
            if self._process.poll() is not None:
                raise PeerError(f"{self.name} ended with code {self._process.returncode}:\n{self._log_tail()}")
            if time.monotonic() - started > START_TIMEOUT_S:
                self.stop()
                raise PeerError(f"{self.name} did not answer within {START_TIMEOUT_S:.0f} s:\n{self._log_tail()}")
            time.sleep(0.005)
        self.start_ms = (time.monotonic() - started) * 1000
        return self

    def _log_tail(self) -> str:
        return self.log_file.read_text(errors="replace")[-3000:] if self.log_file.exists() else ""

    def stop(self, *, kill: bool = False) -> None:
        """Ends the process (SIGKILL with `kill`, as a crash would) and, if the folder is ours, removes it."""
        atexit.unregister(self.stop)
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL if kill else signal.SIGTERM)
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if self._owns_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def restart(self) -> float:
        """Stops and starts again on the same data; returns the milliseconds until it answered."""
        keep, self._owns_folder = self._owns_folder, False
        self.stop()
        self._owns_folder = keep
        self.start()
        return self.start_ms

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- measuring -------------------------------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        if self._process is None:
            raise PeerError(f"{self.name} is not running")
        return self._process.pid

    def cpu_s(self) -> float:
        """User and system time of the process tree so far, ended children included."""
        ticks = 0
        for pid in process_tree(self.pid):
            fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
            if fields:
                ticks += sum(int(fields[i]) for i in (11, 12, 13, 14))
        return ticks / os.sysconf("SC_CLK_TCK")

    def rss_mb(self) -> float:
        return self._memory_mb("VmRSS")

    def peak_rss_mb(self) -> float:
        """The most memory each process of the tree has had since `reset_peak`."""
        return self._memory_mb("VmHWM")

    def reset_peak(self) -> None:
        for pid in process_tree(self.pid):
            try:
                Path(f"/proc/{pid}/clear_refs").write_text("5")
            except OSError:
                continue  # it has ended meanwhile

    def _memory_mb(self, field: str) -> float:
        kilobytes = 0
        for pid in process_tree(self.pid):
            for line in _read(f"/proc/{pid}/status").splitlines():
                if line.startswith(field + ":"):
                    kilobytes += int(line.split()[1])
        return kilobytes / 1024

    def data_mb(self) -> float:
        """Bytes on disk under the data folder (a file that vanishes meanwhile counts as nothing)."""
        total = 0
        for path in self.folder.rglob("*"):
            try:
                total += path.stat().st_blocks * 512
            except OSError:
                continue
        return total / 1e6


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def process_tree(root: int) -> list[int]:
    tree, queue = [], [root]
    while queue:
        pid = queue.pop()
        tree.append(pid)
        tasks = Path(f"/proc/{pid}/task")
        try:
            for task in tasks.iterdir():
                queue += [int(child) for child in _read(f"{task}/children").split()]
        except OSError:
            continue
    return tree


class KafkaPeer(Peer):
    """Apache Kafka, one KRaft node that is broker and controller."""

    name = "kafka"

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        folder: Path | None = None,
        jvm_options: tuple[str, ...] = SHIPPED_JVM_OPTIONS,
        *,
        protocol: str = PLAINTEXT,
        tls: ssl.SSLContext | None = None,
        more_listeners: Mapping[str, str] | None = None,
        version: str = KAFKA_VERSION,
        features: Mapping[str, int] | None = None,
    ) -> None:
        """`features` are levels that the cluster is to begin with, in place of the release's own."""
        super().__init__(settings, folder, protocol=protocol, tls=tls, more_listeners=more_listeners)
        self._jvm_options = jvm_options
        self.controller_port = free_port()
        self.version = version
        self._features = dict(features or {})

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def _properties(self) -> Path:
        return self.folder / "server.properties"

    def prepare(self) -> None:
        if self._properties.exists():
            return
        self.write_properties()
        command = java_command("-XX:TieredStopAtLevel=1", version=self.version)
        command += ["kafka.tools.StorageTool", "format", "--standalone", "-t", CLUSTER_ID, "-c", str(self._properties)]
        command += [part for name, level in self._features.items() for part in ("--feature", f"{name}={level}")]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise PeerError(f"formatting Kafka's folder failed:\n{done.stdout}{done.stderr}")

    def write_properties(self) -> None:
        """Also for a folder that is formatted already: then with changed settings."""
        settings = {
            **SINGLE_NODE_SETTINGS,
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": f"{HOST}:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.data),
            **self._listeners(),
            **self.settings,
        }
        if self.protocol != PLAINTEXT and "super.users" in settings:
            settings["super.users"] += ";User:ANONYMOUS"  # the broker itself, on its listener and the controller's
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    def _listeners(self) -> dict[str, str]:
        """Where no listener is PLAINTEXT, the broker has one of its own: it talks to itself (share groups' state,
        transaction markers) and should not need credentials for it.
        """
        addresses = {name: self.address(name) for name in self.protocols}
        protocols = dict(self.protocols)
        if PLAINTEXT not in protocols:
            protocols[PLAINTEXT] = PLAINTEXT
            addresses[PLAINTEXT] = f"{HOST}:{free_port()}"
        advertised = [f"{name}://{address}" for name, address in addresses.items()]
        return {
            "listeners": ",".join([*advertised, f"CONTROLLER://{HOST}:{self.controller_port}"]),
            "advertised.listeners": ",".join(advertised),
            "inter.broker.listener.name": PLAINTEXT,
            "listener.security.protocol.map": ",".join(
                ["CONTROLLER:PLAINTEXT", *(f"{name}:{protocol}" for name, protocol in protocols.items())]
            ),
        }

    def command(self) -> list[str]:
        return [*java_command(*self._jvm_options, version=self.version), "kafka.Kafka", str(self._properties)]


class PenstockPeer(Peer):
    """`penstock serve`, from the environment that runs the harness unless $PENSTOCK names another command."""

    name = "penstock"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def _configs(self) -> Path:
        return self.folder / "penstock.toml"

    def prepare(self) -> None:
        """Settings with passwords may not stand on the command line, where every user of the machine sees them."""
        if self._is_plain:
            return
        protocols = ",".join(f"{name}:{protocol}" for name, protocol in self.protocols.items())
        settings = {"listener.security.protocol.map": protocols, **self.settings}
        lines = (f"{json.dumps(name)} = {json.dumps(value)}\n" for name, value in settings.items())
        self._configs.write_text("[serve.set]\n" + "".join(lines))

    @property
    def _is_plain(self) -> bool:
        return list(self.protocols) == [PLAINTEXT]

    def command(self) -> list[str]:
        command = [self.program(), "serve", "--data", str(self.data)]
        if self._is_plain:
            options = [part for name, value in self.settings.items() for part in ("-c", f"{name}={value}")]
            return [*command, "--listen", self.bootstrap, *options]
        listen = [part for name in self.protocols for part in ("--listen", f"{name}://{self.address(name)}")]
        return [*command, *listen, "--config", str(self._configs)]

    def program(self) -> str:
        beside = Path(sys.executable).parent / "penstock"
        program = os.environ.get("PENSTOCK") or (str(beside) if beside.exists() else shutil.which("penstock"))
        if not program:
            raise PeerError("the penstock command is missing: pip install -e . first")
        return program


class EarlierPeer(PenstockPeer):
    """Another Penstock, as it was before a change: $PENSTOCK_BEFORE names its command."""

    name = "before"

    def program(self) -> str:
        return os.environ["PENSTOCK_BEFORE"]


class SeveralPeer(PenstockPeer):
    """Penstock as several brokers on this machine: $PENSTOCK_SEVERAL says how many."""

    name = "several"

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.port = free_ports(int(os.environ["PENSTOCK_SEVERAL"]))

    def command(self) -> list[str]:
        return [*super().command(), "--brokers", os.environ["PENSTOCK_SEVERAL"]]


def run_java_tool(
    class_name: str, *arguments: str, timeout_s: float = 120.0, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """One of Kafka's own command-line tools, by its main class."""
    command = [*java_command("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"), class_name, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, input=stdin)
