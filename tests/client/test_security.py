"""Settings of TLS and SASL: what fits together, what they are called elsewhere, and that secrets stay secret."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

from penstock.client import Token
from penstock.client.config import AdminConfig, ClientConfig, load
from penstock.client.errors import UsageError
from penstock.client.security import SECRETS, SecurityConfig

SCRAM = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}
USER = {**SCRAM, "sasl.username": "billing", "sasl.password": "hunter2"}
OAUTH = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}


def provide() -> Token:
    return Token("t", 4e9)


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("ssl.truststore.location", "ssl_cafile"),
        ("ssl.ca.location", "ssl_cafile"),
        ("ssl.ca.pem", "ssl_truststore_certificates"),
        ("ssl.keystore.location", "ssl_certfile"),
        ("ssl.certificate.location", "ssl_certfile"),
    ],
)
def test_certificates_have_the_names_of_other_clients_too(name: str, ours: str) -> None:
    config = load(ClientConfig, {name: "x"}, {})
    assert getattr(config, ours) == "x"
    assert config.has_tls


@pytest.mark.parametrize("names", [("sasl.username", "sasl.password"), ("sasl_plain_username", "sasl_plain_password")])
def test_users_have_the_names_of_other_clients_too(names: tuple[str, str]) -> None:
    config = load(ClientConfig, {**SCRAM, names[0]: "billing", names[1]: "hunter2"}, {})
    assert (config.sasl_username, config.sasl_password) == ("billing", "hunter2")


@pytest.mark.parametrize(
    ("id_name", "secret_name"),
    [
        ("sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret"),
        ("sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.credentials.client.secret"),
    ],
)
def test_client_credentials_have_kafkas_and_librdkafkas_names(id_name: str, secret_name: str) -> None:
    given = {**OAUTH, "sasl.oauthbearer.token.endpoint.url": "https://idp/token", id_name: "me", secret_name: "hush"}
    given["sasl.oauthbearer.method"] = "oidc"
    given["sasl.login.callback.handler.class"] = (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
    )
    config = load(ClientConfig, given, {})
    assert (config.sasl_oauthbearer_client_id, config.sasl_oauthbearer_client_secret) == ("me", "hush")


@pytest.mark.parametrize(("algorithm", "checked"), [("https", True), ("HTTPS", True), ("", False), ("none", False)])
def test_kafkas_empty_identification_algorithm_turns_host_names_off(algorithm: str, checked: bool) -> None:
    config = load(ClientConfig, {"ssl.endpoint.identification.algorithm": algorithm}, {})
    assert config.ssl_check_hostname is checked
    assert not config.has_tls


def test_a_mechanism_is_known_in_any_case() -> None:
    assert load(ClientConfig, {**USER, "sasl.mechanism": "scram-sha-256"}, {}).sasl_mechanism == "SCRAM-SHA-256"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sasl.mechanism": "PLAIN"}, "security_protocol='plaintext' authenticates nobody; set .*'sasl_ssl'"),
        ({"security.protocol": "SSL", "sasl.username": "a"}, "security_protocol='ssl' authenticates nobody"),
        ({"security.protocol": "PLAINTEXT", "ssl.ca.location": "x"}, "'plaintext' encrypts nothing; set .*'ssl'"),
        ({**USER, "security.protocol": "SASL_PLAINTEXT", "ssl.ca.location": "x"}, "set security_protocol='sasl_ssl'"),
        ({"security.protocol": "SASL_SSL"}, "sasl_mechanism is missing; .*SCRAM-SHA-512"),
        ({**USER, "sasl.mechanism": "GSSAPI"}, "Kerberos is not supported"),
        ({**USER, "sasl.mechanism": "MD5"}, "must be one of PLAIN"),
        (SCRAM, "there is no user; set sasl_username"),
        ({**SCRAM, "sasl.username": "a"}, "without sasl_password"),
        ({**SCRAM, "sasl.password": "a"}, "there is no user"),
        ({**USER, "sasl.jaas.config": "x"}, "use only one of them"),
        ({**USER, "sasl_oauth_token_provider": "a:b"}, "tokens are for OAUTHBEARER"),
        (OAUTH, "OAUTHBEARER needs tokens: set sasl_oauth_token_provider"),
        ({**OAUTH, "sasl.username": "a"}, "takes tokens, no sasl_username"),
        ({**OAUTH, "sasl.oauthbearer.token.endpoint.url": "https://x"}, "without sasl.oauthbearer.client.id"),
        (
            {**OAUTH, "sasl_oauth_token_provider": "a:b", "sasl.oauthbearer.token.endpoint.url": "https://x"},
            "brings its own tokens",
        ),
        ({"ssl.keystore.key": "x"}, "belong together"),
        ({"ssl.key.location": "x"}, "name it in ssl_certfile"),
        ({"ssl.key.password": "x", "ssl.ca.location": "y"}, "without a key"),
        ({"ssl.ca.location": "x", "ssl.ca.pem": "y"}, "both given"),
        ({"ssl.keystore.password": "x"}, "for JKS and PKCS12 stores"),
        ({"enable.ssl.certificate.verification": "false"}, "name the authority"),
        ({"ssl.endpoint.identification.algorithm": "ftp"}, "must be https, or empty"),
        ({"sasl.login.callback.handler.class": "com.example.Mine"}, "names a Java class"),
    ],
)
def test_what_does_not_fit_together_is_refused_with_what_to_do(given: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load(AdminConfig, given, {})


def test_a_token_provider_is_a_function_an_object_or_a_name() -> None:
    class LikeKafkaPythons:
        def token(self) -> Token:
            return provide()

    for given in (provide, LikeKafkaPythons(), "module:function"):
        config = load(ClientConfig, OAUTH, {"sasl_oauth_token_provider": given})
        assert config.sasl_oauth_token_provider is given


def test_no_secret_is_in_a_repr() -> None:
    assert "hunter2" not in repr(load(ClientConfig, USER, {}))
    jaas = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="a" password="hunter2";'
    assert "hunter2" not in repr(load(ClientConfig, {**SCRAM, "sasl.jaas.config": jaas}, {}))


@pytest.mark.parametrize("name", sorted(SECRETS))
def test_no_secret_is_in_the_error_about_it(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(ClientConfig, None, {name: [31337]})
    assert "31337" not in str(caught.value)


def test_security_settings_travel_to_another_process() -> None:
    config = load(ClientConfig, USER, {})
    security = SecurityConfig(**config.given())  # type: ignore[arg-type]
    assert pickle.loads(pickle.dumps(security)) == security
    assert set(security.given()) == {"security_protocol", "sasl_mechanism", "sasl_username", "sasl_password"}
    assert dataclasses.is_dataclass(security)
