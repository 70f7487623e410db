from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from penstock.coordination.context import RequestContext


def test_a_request_of_nobody_in_particular_sees_every_topic() -> None:
    context = RequestContext(now_ms=5, api_version=3)
    assert (context.client_id, context.client_host) == ("", "/127.0.0.1")
    assert context.view.shows("anything")


def test_a_command_cannot_change_the_context_of_its_request() -> None:
    context = RequestContext(now_ms=5, api_version=3)
    with pytest.raises(FrozenInstanceError):
        context.now_ms = 6  # type: ignore[misc]
