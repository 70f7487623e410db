"""What is counted of clients that authenticate. TLS is in test_tls_transport.py, SASL in test_authentication.py."""

from __future__ import annotations

from penstock.broker.authentication_counts import AuthenticationCounts


def test_each_listener_counts_by_itself_from_zero_on() -> None:
    counts = AuthenticationCounts()
    counts.open("OUTSIDE")
    counts.open("INSIDE")
    counts.succeeded("INSIDE")
    counts.failed("OUTSIDE")
    counts.failed("OUTSIDE")
    counts.failed("OUTSIDE", again=True)
    found = {metric.name.removeprefix("kafka_server_socket_server_metrics_"): metric for metric in counts.metrics()}
    assert {name: dict(metric.samples) for name, metric in found.items()} == {
        "successful_authentication_total": {("INSIDE",): 1, ("OUTSIDE",): 0},
        "successful_reauthentication_total": {("INSIDE",): 0, ("OUTSIDE",): 0},
        "failed_authentication_total": {("INSIDE",): 0, ("OUTSIDE",): 2},
        "failed_reauthentication_total": {("INSIDE",): 0, ("OUTSIDE",): 1},
    }
