"""ApiVersions: every API with its versions, and the features of the cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.broker.handlers.table import SERVED
from penstock.testing import Broker
from penstock.wire import messages as m
from penstock.wire.api import ApiKey
from penstock.wire.errors import ErrorCode
from tests.broker.handlers.feature_levels import ask, lower


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as it:
        yield it


def api_versions(broker: Broker, version: int, name: str = "test", software: str = "1") -> m.ApiVersionsResponse:
    request = m.ApiVersionsRequest(client_software_name=name, client_software_version=software)
    response = ask(broker, ApiKey.API_VERSIONS, version, request)
    assert isinstance(response, m.ApiVersionsResponse)
    return response


TELEMETRY = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}


def test_every_api_that_is_served_is_advertised_except_for_metrics_that_nobody_could_look_at(broker: Broker) -> None:
    assert {each.api_key for each in api_versions(broker, 4).api_keys} == set(SERVED) - TELEMETRY


def test_where_metrics_are_served_clients_are_offered_to_push_theirs() -> None:
    with Broker(configs={"penstock.metrics.listen": "127.0.0.1:0"}) as broker:
        assert {each.api_key for each in api_versions(broker, 4).api_keys} == set(SERVED)


@pytest.mark.parametrize(("name", "software"), [("", "1"), ("a b", "1"), ("test", "-1")])
def test_software_without_a_proper_name_is_refused(broker: Broker, name: str, software: str) -> None:
    assert api_versions(broker, 3, name, software).error_code == ErrorCode.INVALID_REQUEST


def test_features_that_start_at_zero_are_left_out_of_versions_that_older_java_clients_read(broker: Broker) -> None:
    assert [each.name for each in api_versions(broker, 3).supported_features] == ["metadata.version"]
    assert "share.version" in {each.name for each in api_versions(broker, 4).supported_features}


def test_a_feature_at_level_zero_is_supported_but_not_finalized() -> None:
    with Broker() as broker:
        lower(broker, "share.version")
        response = api_versions(broker, 4)
        assert "share.version" in {each.name for each in response.supported_features}
        assert "share.version" not in {each.name for each in response.finalized_features}
        assert ApiKey.SHARE_FETCH in {each.api_key for each in response.api_keys}
