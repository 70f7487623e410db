"""TLS and authorization: the same load over TLS, handshakes, and what deciding by rules costs.

Both brokers have the same certificate and the same rules. The clients show a certificate (mutual TLS), whose subject is
the principal that the rules are about.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from bench.certificates import Authority, Identity, broker_settings
from bench.harness import SETTINGS, Bench, Measurement, Row, at_least, at_least_absolute, median
from bench.peers import HOST, KafkaPeer, Peer, PeerError, PenstockPeer
from bench.rows.core import BATCHED, ONE_PER_REQUEST, READ_AHEAD, Measure, consume, per_mb, produce

RULES = 300
HANDSHAKERS = 2
AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
TOPICS = "bench-"
"""What the names of the benchmark's topics begin with."""


def rules(principal: str) -> list[AclBinding]:
    """Everything on the benchmark's topics for one principal, and rules about others' topics around it."""

    def allow(who: str, name: str, pattern: ResourcePatternType, operation: AclOperation) -> AclBinding:
        return AclBinding(ResourceType.TOPIC, name, pattern, who, "*", operation, AclPermissionType.ALLOW)

    prefixed, literal = ResourcePatternType.PREFIXED, ResourcePatternType.LITERAL
    made = [allow(principal, TOPICS, prefixed, AclOperation.ALL)]
    for number in range(RULES // 3):
        other = f"User:team-{number}"
        made += [
            allow(other, f"team-{number}-", prefixed, AclOperation.ALL),
            allow(other, f"shared-{number}", literal, AclOperation.READ),
            allow(other, TOPICS, prefixed, AclOperation.DESCRIBE),
        ]
    return made


def create_rules(admin: AdminClient, principal: str) -> None:
    for future in admin.create_acls(rules(principal)).values():
        future.result(60)


def librdkafka_tls(authority: Authority, identity: Identity) -> dict[str, str]:
    return {
        "security.protocol": "ssl",
        "ssl.ca.location": str(authority.certificate),
        "ssl.certificate.location": str(identity.certificate),
        "ssl.key.location": str(identity.key),
    }


@contextmanager
def over_tls(kind: type[Peer]) -> Iterator[Peer]:
    """A broker that wants certificates from its clients, with rules for the one that the load program shows."""
    with tempfile.TemporaryDirectory(prefix="bench-tls-") as folder:
        authority = Authority(Path(folder))
        broker, admin, load = authority.issue("broker", HOST), authority.issue("admin"), authority.issue("load")
        tls = broker_settings(authority, broker, client_auth="required")
        settings = {**SETTINGS, **tls, **AUTHORIZER, "super.users": "User:CN=admin"}
        peer = kind(settings, protocol="SSL", tls=authority.client_context(admin))
        peer.client_properties = librdkafka_tls(authority, load)
        peer.admin_properties = librdkafka_tls(authority, admin)
        with peer:
            create_rules(Bench().admin(peer), "User:CN=load")
            yield peer


def handshakes(bench: Bench, peer: Peer) -> Measurement:
    """New connections with complete handshakes per second, from two clients at once."""
    count = bench.count(1500)
    files = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")
    command = [sys.executable, "-m", "bench.handshakes", HOST, str(peer.port), str(count)]
    command += [peer.client_properties[name] for name in files]
    cpu_before = peer.cpu_s()
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(HANDSHAKERS)]
    outputs = [process.communicate(timeout=300)[0] for process in running]
    cpu_s = peer.cpu_s() - cpu_before
    if any(process.returncode for process in running):
        raise PeerError(f"a handshake with {peer.name} failed")
    shaken, seconds = count * HANDSHAKERS, max(map(float, outputs))
    return Measurement(shaken / seconds, {"cpu_s_per_million": cpu_s * 1e6 / shaken, "cores": cpu_s / seconds})


def fresh(peer: Peer, settings: dict[str, str]) -> Peer:
    return KafkaPeer(settings) if isinstance(peer, KafkaPeer) else PenstockPeer(settings)


def authorization_cost(measure: Measure, turns: int = 5) -> Measure:
    """What is left, in percent, of a rate of the same broker without an authorizer; measured in turns."""

    def compare(bench: Bench, peer: Peer) -> Measurement:
        # Rules about the cluster do not exist, so everybody may set up the others and create topics.
        authorizing = {**SETTINGS, **AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
        with fresh(peer, SETTINGS) as free, fresh(peer, authorizing) as bound:
            create_rules(bench.admin(bound), "User:ANONYMOUS")
            taken: dict[Peer, list[Measurement]] = {free: [], bound: []}
            for turn in range(turns + 1):
                for broker in (free, bound) if turn % 2 else (bound, free):
                    measured = measure(bench, broker)
                    if turn:
                        taken[broker].append(measured)
            bench.forget(free)
            bench.forget(bound)
        without, with_rules = median(taken[free]), median(taken[bound])
        more = {"without": without.value, "with_rules": with_rules.value}
        more |= {"cpu_without": without.more["cpu_s_per_million"], "cpu_with": with_rules.more["cpu_s_per_million"]}
        return Measurement(with_rules.value / without.value * 100, more)

    return compare


def fetch_one_by_one(size: int, messages: int) -> Measure:
    """Fetches that each bring a few records: as many decisions per record as a consumer can cause."""
    small = {**READ_AHEAD, "fetch.message.max.bytes": 1024, "fetch.max.bytes": 1024, "message.max.bytes": 1024}

    def measure(bench: Bench, peer: Peer) -> Measurement:
        with bench.topic(peer) as topic:
            count = bench.count(messages)
            bench.load("produce", peer, topic, count, size, {**BATCHED, "batch.num.messages": 8})
            return bench.load("consume", peer, topic, count, size, small)

    return measure


def left_over(name: str, title: str, measure: Measure) -> Row:
    targets = (at_least_absolute(97),)
    return Row(name, title, "%", authorization_cost(measure), targets, rounds=1, warm_up=False)


ROWS = (
    Row(
        "tls-produce-1k",
        "TLS: produce 1 KiB, acks=1",
        "MB/s",
        per_mb(produce(1024, 300_000, BATCHED)),
        (at_least(1),),
        on=over_tls,
    ),
    Row(
        "tls-produce-100",
        "TLS: produce 100 B, acks=1",
        "msg/s",
        produce(100, 2_500_000, BATCHED),
        (at_least(1),),
        on=over_tls,
    ),
    Row("tls-consume-1k", "TLS: consume 1 KiB", "MB/s", per_mb(consume(1024, 500_000)), (at_least(1),), on=over_tls),
    Row("tls-consume-100", "TLS: consume 100 B", "msg/s", consume(100, 3_000_000), (at_least(1),), on=over_tls),
    Row("tls-handshakes", "TLS: new connections, two clients", "conn/s", handshakes, (at_least(1),), on=over_tls),
    left_over(
        "rules-produce", f"produce 1 KiB with {RULES} rules, of the rate without", produce(1024, 900_000, BATCHED)
    ),
    left_over(
        "rules-produce-one",
        f"one message per request with {RULES} rules, of the rate without",
        produce(100, 60_000, ONE_PER_REQUEST),
    ),
    left_over("rules-consume", f"consume 1 KiB with {RULES} rules, of the rate without", consume(1024, 900_000)),
    left_over(
        "rules-fetch-small",
        f"fetch 1 KiB at a time with {RULES} rules, of the rate without",
        fetch_one_by_one(100, 100_000),
    ),
)
