"""By which listener brokers reach each other, and as whom."""

from __future__ import annotations

import asyncio

import pytest

from penstock.broker.cluster_login import BROKERS, BROKERS_USER
from penstock.broker.config.definitions import ConfigError
from penstock.broker.peer_connection import Login, PeerAddress, PeerFailed
from penstock.broker.peers import Lane, Peers
from penstock.broker.tls_client import TlsClient
from penstock.broker.users import set_password
from penstock.certificates import make_certificates
from penstock.security.scram import ScramMechanism
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from tests.broker.hand_made_cluster import HandMadeCluster

WAIT_SECONDS = 30.0


async def ask(cluster: HandMadeCluster, sender: int, receiver: int) -> m.MetadataResponse | PeerFailed:
    answered: asyncio.Future[m.MetadataResponse | PeerFailed] = asyncio.get_running_loop().create_future()
    request = m.MetadataRequest(topics=[])
    cluster.parts(sender).peers.send(receiver, Lane.RECORDS, request, m.MetadataResponse, answered.set_result)
    return await asyncio.wait_for(answered, WAIT_SECONDS)


async def test_brokers_find_each_other_in_the_view_of_the_cluster() -> None:
    async with HandMadeCluster(lambda topic, index: 1, {}, nodes=2) as cluster:
        for sender, receiver in ((1, 2), (2, 1)):
            answer = await ask(cluster, sender, receiver)
            assert isinstance(answer, m.MetadataResponse)
            assert [broker.node_id for broker in answer.brokers] == [1, 2]


async def test_a_broker_that_is_not_in_the_view_is_not_there() -> None:
    async with HandMadeCluster(lambda topic, index: 1, {}, nodes=1) as cluster:
        assert "broker 5 is not there" in str(await ask(cluster, 1, 5))


GUARDED = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}


def guarded_cluster(**configs: str) -> HandMadeCluster:
    named = {name.replace("_", "."): value for name, value in configs.items()}
    made = HandMadeCluster(
        lambda topic, index: 1,
        {"jobs": 1},
        nodes=2,
        configs={**GUARDED, **named},
        listen="SASL_PLAINTEXT://127.0.0.1:0",
    )
    set_password(made.catalog, "alice", "secret")
    return made


def logged_in(cluster: HandMadeCluster, user: str, password: str) -> Peers:
    """Somebody who claims to be a broker, and logs in as a user."""
    address = PeerAddress("127.0.0.1", cluster.brokers[1].port)
    login = Login(ScramMechanism.SCRAM_SHA_512, user, password)
    return Peers(2, cluster.parts(1).world, lambda node_id: address, login=login)


async def changes(peers: Peers) -> list[ErrorCode | str]:
    """What a broker answers to a marker and to a state of a share-partition, which only brokers write."""
    loop = asyncio.get_running_loop()
    marked: asyncio.Future[m.WriteTxnMarkersResponse | PeerFailed] = loop.create_future()
    marker = m.WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=1,
        producer_epoch=0,
        transaction_result=True,
        topics=[m.WriteTxnMarkersRequest.WritableTxnMarkerTopic(name="jobs", partition_indexes=[0])],
    )
    markers = m.WriteTxnMarkersRequest(markers=[marker])
    peers.send(1, Lane.MARKERS, markers, m.WriteTxnMarkersResponse, marked.set_result)
    written: asyncio.Future[m.WriteShareGroupStateResponse | PeerFailed] = loop.create_future()
    shapes = m.WriteShareGroupStateRequest
    state = shapes(
        group_id="g",
        topics=[shapes.WriteStateData(topic_id=bytes(15) + b"1", partitions=[shapes.PartitionData(partition=0)])],
    )
    peers.send(1, Lane.SHARE_STATE, state, m.WriteShareGroupStateResponse, written.set_result)
    marker_answer = await asyncio.wait_for(marked, WAIT_SECONDS)
    state_answer = await asyncio.wait_for(written, WAIT_SECONDS)
    if isinstance(marker_answer, PeerFailed) or isinstance(state_answer, PeerFailed):
        return [str(marker_answer), str(state_answer)]
    return [
        ErrorCode(marker_answer.markers[0].topics[0].partitions[0].error_code),
        ErrorCode(state_answer.results[0].partitions[0].error_code),
    ]


async def test_brokers_log_in_with_each_other_and_may_what_users_may_not() -> None:
    async with guarded_cluster() as cluster:
        denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        answers = await changes(cluster.parts(2).peers)
        assert all(isinstance(answer, ErrorCode) and answer != denied for answer in answers), answers
        alice = logged_in(cluster, "alice", "secret")
        assert await changes(alice) == [denied, denied]
        alice.stop()


async def test_nobody_logs_in_as_a_broker_without_the_secret_of_the_cluster() -> None:
    made = guarded_cluster()
    set_password(made.catalog, BROKERS_USER, "guessed")
    async with made as cluster:
        impostor = logged_in(cluster, BROKERS_USER, "guessed")
        assert all("refuses this broker" in str(answer) for answer in await changes(impostor))
        impostor.stop()


async def test_a_listener_without_scram_is_refused_between_brokers() -> None:
    async with guarded_cluster(sasl_enabled_mechanisms="PLAIN") as cluster:
        with pytest.raises(ConfigError, match=r"add SCRAM-SHA-512 to sasl\.enabled\.mechanisms"):
            cluster.parts(2).build("peers")


@pytest.mark.parametrize(
    ("name", "value"), [("inter.broker.listener.name", "INSIDE"), ("security.inter.broker.protocol", "SASL_SSL")]
)
async def test_the_listener_between_brokers_has_to_exist(name: str, value: str) -> None:
    configs = {name: value, "listener.security.protocol.map": "INSIDE:SSL,PLAINTEXT:PLAINTEXT"}
    async with HandMadeCluster(lambda topic, index: 1, {}, nodes=1, configs=configs) as cluster:
        with pytest.raises(ConfigError, match=rf"listener {value}, which is not there\. Name one of PLAINTEXT"):
            cluster.parts(1).build("peers")


@pytest.mark.parametrize(
    ("chosen", "logs_in_with"),
    [("GSSAPI", "SCRAM-SHA-512"), ("SCRAM-SHA-512", "SCRAM-SHA-512"), ("SCRAM-SHA-256", "SCRAM-SHA-256")],
)
async def test_brokers_log_in_with_the_mechanism_that_is_chosen_for_them(chosen: str, logs_in_with: str) -> None:
    async with guarded_cluster(sasl_mechanism_inter_broker_protocol=chosen) as cluster:
        assert isinstance(await ask(cluster, 2, 1), m.MetadataResponse)
        login = cluster.parts(2).peers.login
        assert login is not None
        assert login.mechanism.sasl_name == logs_in_with


@pytest.mark.parametrize(
    ("mechanism", "remedy"),
    [("PLAIN", "Set it to one of SCRAM-SHA-512, SCRAM-SHA-256"), ("SCRAM-SHA-256", "add SCRAM-SHA-256 to sasl")],
)
async def test_a_mechanism_that_brokers_cannot_log_in_with_is_refused(mechanism: str, remedy: str) -> None:
    configs = {"sasl_mechanism_inter_broker_protocol": mechanism, "sasl_enabled_mechanisms": "SCRAM-SHA-512,PLAIN"}
    async with guarded_cluster(**configs) as cluster:
        with pytest.raises(ConfigError, match=remedy):
            cluster.parts(2).build("peers")


@pytest.mark.parametrize(
    ("protocol", "principal"),
    [("SASL_SSL", str(BROKERS)), ("SSL", "User:CN=127.0.0.1")],
)
async def test_brokers_reach_each_other_over_tls(protocol: str, principal: str) -> None:
    certificates = make_certificates(["127.0.0.1"])
    configs = {
        **GUARDED,
        **certificates.broker_configs(),
        "ssl.client.auth": "required",
        "super.users": principal,
    }
    listen = f"{protocol}://127.0.0.1:0"
    made = HandMadeCluster(lambda topic, index: 1, {"jobs": 1}, nodes=2, configs=configs, listen=listen)
    async with made as cluster:
        answers = await changes(cluster.parts(2).peers)
        denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert all(isinstance(answer, ErrorCode) and answer != denied for answer in answers), answers


async def test_brokers_do_not_talk_to_one_with_a_certificate_that_they_do_not_trust() -> None:
    ours, foreign = make_certificates(["127.0.0.1"]), make_certificates(["127.0.0.1"])
    listen = "SSL://127.0.0.1:0"
    made = HandMadeCluster(lambda topic, index: 1, {}, nodes=1, configs=ours.broker_configs(), listen=listen)
    other = HandMadeCluster(lambda topic, index: 1, {}, nodes=1, configs=foreign.broker_configs(), listen=listen)
    async with made as cluster, other as strangers:
        address = PeerAddress("127.0.0.1", strangers.brokers[1].port)
        here = cluster.parts(1)
        context = TlsClient(here.config.for_listener("SSL"), "SSL").context
        peers = Peers(1, here.world, lambda node_id: address, tls=context)
        assert all("CERTIFICATE_VERIFY_FAILED" in str(answer) for answer in await changes(peers))
        peers.stop()


async def test_certificates_that_other_brokers_could_not_trust_are_refused() -> None:
    configs = make_certificates(["another.example"]).broker_configs()
    listen = "SSL://127.0.0.1:0"
    async with HandMadeCluster(lambda topic, index: 1, {}, nodes=1, configs=configs, listen=listen) as cluster:
        with pytest.raises(ConfigError, match=r"has to be for 127\.0\.0\.1, which it advertises"):
            cluster.parts(1).build("peers")
