"""Lowers and raises the finalized features of a broker, and reads them as clients do."""

from __future__ import annotations

from penstock.broker.features import SAFE_DOWNGRADE
from penstock.testing import Broker
from penstock.wire import messages as m
from penstock.wire.api import API_TABLE, ApiKey
from penstock.wire.messages import Message
from tests.broker.raw import RawClient


def ask(broker: Broker, key: ApiKey, version: int, request: Message) -> Message:
    with RawClient(broker.port) as client:
        return client.ask(request, API_TABLE[key].response, version)


def update(broker: Broker, feature: str, level: int, upgrade_type: int, version: int = 2) -> m.UpdateFeaturesResponse:
    key = m.UpdateFeaturesRequest.FeatureUpdateKey
    request = m.UpdateFeaturesRequest(
        timeout_ms=10_000,
        feature_updates=[key(feature=feature, max_version_level=level, upgrade_type=upgrade_type)],
    )
    response = ask(broker, ApiKey.UPDATE_FEATURES, version, request)
    assert isinstance(response, m.UpdateFeaturesResponse)
    return response


def lower(broker: Broker, feature: str, level: int = 0) -> None:
    assert update(broker, feature, level, SAFE_DOWNGRADE).error_code == 0


def finalized(broker: Broker) -> tuple[dict[str, int], int]:
    request = m.ApiVersionsRequest(client_software_name="test", client_software_version="1")
    response = ask(broker, ApiKey.API_VERSIONS, 4, request)
    assert isinstance(response, m.ApiVersionsResponse)
    levels = {each.name: each.max_version_level for each in response.finalized_features}
    return levels, response.finalized_features_epoch
