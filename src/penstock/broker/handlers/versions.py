"""ApiVersions: what this broker can do.

A client learns the range of versions of each API and the finalized features of the cluster. From version 3 on it names
its own software; a name or version that is not of the form of a package name is an INVALID_REQUEST. Features that start
at level 0 are left out of versions below 4, which older Java clients could not read (KAFKA-17011).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

from penstock.broker.features import SUPPORTED, Features
from penstock.broker.requests import Answer, Request
from penstock.wire import messages as m
from penstock.wire.api import API_TABLE, ApiInfo, ApiKey
from penstock.wire.errors import ErrorCode

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_FLEXIBLE = 3
_ZERO_FEATURES = 4


@functools.cache
def _version(key: int, low: int, high: int) -> m.ApiVersionsResponse.ApiVersion:
    return m.ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)


def unsupported_version() -> m.ApiVersionsResponse:
    """The answer to a version that is too new: the range of this API only, for the client to choose from."""
    info = API_TABLE[ApiKey.API_VERSIONS]
    return m.ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[_version(info.key, info.min_version, info.max_version)]
    )


class VersionHandlers:
    def __init__(self, advertised: Callable[[], list[ApiInfo]], features: Features) -> None:
        self._advertised = advertised
        self._features = features

    def api_versions(self, request: Request[m.ApiVersionsRequest]) -> Answer:
        authentication = request.connection.authentication
        if authentication is not None and authentication.refuses_versions:
            return authentication.refuse_versions(request)
        body = request.body
        if request.api_version >= _FLEXIBLE and not (
            _SOFTWARE.fullmatch(body.client_software_name) and _SOFTWARE.fullmatch(body.client_software_version)
        ):
            return m.ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        if authentication is not None:
            authentication.versions_sent()
        request.connection.client_id = request.client_id
        if request.api_version >= _FLEXIBLE:
            request.connection.software = (body.client_software_name, body.client_software_version)
        response = m.ApiVersionsResponse(
            api_keys=[_version(info.key, info.min_version, info.max_version) for info in self._advertised()],
            finalized_features_epoch=self._features.epoch,
        )
        for name, feature in SUPPORTED.items():
            if feature.lowest > 0 or request.api_version >= _ZERO_FEATURES:
                response.supported_features.append(
                    m.ApiVersionsResponse.SupportedFeatureKey(
                        name=name, min_version=feature.lowest, max_version=feature.highest
                    )
                )
            level = self._features.level(name)
            if level > 0:
                response.finalized_features.append(
                    m.ApiVersionsResponse.FinalizedFeatureKey(
                        name=name, max_version_level=level, min_version_level=level
                    )
                )
        return response
