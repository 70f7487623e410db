"""What tells one cluster from every other."""

from __future__ import annotations

import base64
import uuid


def new_cluster_id() -> str:
    """Kafka's form of a cluster id: a random UUID in URL-safe base64, and no leading dash for command lines' sake."""
    while True:
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not cluster_id.startswith("-"):
            return cluster_id
