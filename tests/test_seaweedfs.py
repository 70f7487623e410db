"""The S3 server of the tests starts whatever other programs listen on."""

from __future__ import annotations

import socket

import pytest

from penstock.storage.objects.store import ObjectStore
from tests import seaweedfs
from tests.seaweedfs import SeaweedServer, free_ports

S3, GRPC = 3, 10_000


def test_ports_of_connections_are_left_alone() -> None:
    assert all(1024 < port < port + GRPC < 32_768 for port in free_ports(50))


@pytest.mark.parametrize("companion", [0, GRPC], ids=["port", "gRPC"])
def test_ports_that_are_taken_before_the_start_are_exchanged(monkeypatch: pytest.MonkeyPatch, companion: int) -> None:
    refused, usable = free_ports(4), free_ports(4)
    chosen = iter([refused, usable])
    monkeypatch.setattr(seaweedfs, "free_ports", lambda count: next(chosen))
    with socket.create_server(("127.0.0.1", refused[S3] + companion)), SeaweedServer() as server:
        assert server.environment["AWS_ENDPOINT_URL"].endswith(f":{usable[S3]}")
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        ObjectStore.open("s3://bucket/of/tests").check("c/check/1")


def test_a_start_that_fails_for_another_reason_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seaweedfs, "_ACTIONS", {"key": "none"})
    with pytest.raises(AssertionError, match="config"), SeaweedServer():
        pass
