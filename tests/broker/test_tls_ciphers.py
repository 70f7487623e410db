"""Which versions and suites TLS may negotiate."""

from __future__ import annotations

import shutil
import ssl
import subprocess

import pytest

from penstock.broker.config import ConfigError
from penstock.broker.tls_ciphers import openssl_name, restrict

TLS_1_3 = ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"]
BOTH = ["TLSv1.2", "TLSv1.3"]


def restricted(protocols: list[str], suites: list[str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    restrict(context, protocols, suites)
    return context


def versions(context: ssl.SSLContext) -> tuple[str, str]:
    return context.minimum_version.name, context.maximum_version.name


def older_suites(context: ssl.SSLContext) -> list[str]:
    return [suite["name"] for suite in context.get_ciphers() if suite["protocol"] != "TLSv1.3"]


class TestVersions:
    @pytest.mark.parametrize(
        ("protocols", "expected"),
        [
            (["TLSv1.2"], ("TLSv1_2", "TLSv1_2")),
            (["TLSv1.3"], ("TLSv1_3", "TLSv1_3")),
            (["TLSv1.3", "TLSv1.2"], ("TLSv1_2", "TLSv1_3")),
        ],
    )
    def test_are_those_that_are_enabled(self, protocols: list[str], expected: tuple[str, str]) -> None:
        assert versions(restricted(protocols, [])) == expected

    @pytest.mark.parametrize("protocols", [[], ["TLSv1.1", "TLSv1.2"], ["SSLv3"]])
    def test_that_are_broken_are_refused(self, protocols: list[str]) -> None:
        with pytest.raises(ConfigError, match=r"serves TLSv1.2 and TLSv1.3"):
            restricted(protocols, [])


class TestSuites:
    def test_of_tls_1_2_alone_switch_tls_1_3_off(self) -> None:
        context = restricted(BOTH, ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384"])
        assert versions(context) == ("TLSv1_2", "TLSv1_2")
        assert older_suites(context) == ["ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384"]

    def test_of_tls_1_3_alone_switch_tls_1_2_off(self) -> None:
        assert versions(restricted(BOTH, TLS_1_3)) == ("TLSv1_3", "TLSv1_3")

    def test_of_both_keep_both(self) -> None:
        context = restricted(BOTH, [*TLS_1_3, "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"])
        assert versions(context) == ("TLSv1_2", "TLSv1_3")
        assert older_suites(context) == ["ECDHE-ECDSA-CHACHA20-POLY1305"]

    def test_of_tls_1_3_can_only_be_chosen_together(self) -> None:
        with pytest.raises(ConfigError, match=r"Python cannot choose among the suites of TLS 1.3. Name all of them"):
            restricted(BOTH, ["TLS_AES_256_GCM_SHA384"])

    def test_without_a_protocol_are_refused(self) -> None:
        with pytest.raises(ConfigError, match=r"none of them can be used with ssl.enabled.protocols=TLSv1.3"):
            restricted(["TLSv1.3"], ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"])

    @pytest.mark.parametrize("suite", ["TLS_MADE_UP", "ALL:eNULL", "aNULL@SECLEVEL=0", "TLS_RSA_WITH_RC4_128_MD5"])
    def test_that_openssl_does_not_have_are_refused(self, suite: str) -> None:
        with pytest.raises(ConfigError, match=r"has no suite"):
            restricted(BOTH, [suite])


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_java_names_are_those_that_openssl_calls_standard() -> None:
    printed = subprocess.run(
        [
            "openssl",
            "ciphers",
            "-stdname",
            "-tls1_2",
            "ECDH+AES:DHE+AES:RSA+AES:ECDH+CHACHA20:DHE+CHACHA20:!aDSS:!PSK:!SRP:!aNULL",
        ],
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    names = {words[0]: words[2] for line in printed.splitlines() if "_WITH_" in (words := line.split())[0]}
    assert len(names) > 20
    assert {java: openssl_name(java) for java in names} == names
