"""What each security protocol stands for."""

from __future__ import annotations

from penstock.security.protocols import SecurityProtocol


def test_a_protocol_knows_its_parts() -> None:
    assert [each.value for each in SecurityProtocol if each.has_tls] == ["SSL", "SASL_SSL"]
    assert [each.value for each in SecurityProtocol if each.has_sasl] == ["SASL_PLAINTEXT", "SASL_SSL"]
