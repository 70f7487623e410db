"""Cluster ids have Kafka's form and are never the same."""

from __future__ import annotations

import base64

from penstock.catalog.identity import new_cluster_id


def test_ids_are_uuids_in_base64_that_a_command_line_can_take() -> None:
    ids = {new_cluster_id() for _ in range(500)}
    assert len(ids) == 500
    assert all(len(base64.urlsafe_b64decode(each + "==")) == 16 and not each.startswith("-") for each in ids)
