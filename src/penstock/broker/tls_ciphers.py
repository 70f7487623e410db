"""`ssl.cipher.suites` and `ssl.enabled.protocols`: what a listener's TLS may negotiate, in the words of OpenSSL.

Suites may have Java's names or OpenSSL's. Python cannot choose among the suites of TLS 1.3, so they are named all
together or not at all; without them TLS 1.3 is off, as it is in Kafka, and with them alone TLS 1.2 is.
"""

from __future__ import annotations

import re
import ssl

from penstock.broker.config import ConfigError

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_TLS_1_3_SUITES = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})
_JAVA_NAME = re.compile(r"TLS_(?:(ECDHE|DHE)_)?(RSA|ECDSA)_WITH_(.+)")


def restrict(context: ssl.SSLContext, protocols: list[str], suites: list[str]) -> None:
    """Let a context negotiate these protocols and suites only. Raises ConfigError with what to write."""
    unknown = [protocol for protocol in protocols if protocol not in _VERSIONS]
    if unknown or not protocols:
        raise ConfigError(
            f"Cannot accept ssl.enabled.protocols={','.join(protocols)}: Penstock serves TLSv1.2 and TLSv1.3, because "
            "older versions are broken. Name one of these or both."
        )
    allowed = set(protocols)
    if suites:
        older = _choose_suites(suites)
        allowed -= {"TLSv1.2"} if not older else {"TLSv1.3"} if len(older) == len(suites) else set()
        if not allowed:
            raise ConfigError(
                f"Cannot accept ssl.cipher.suites={','.join(suites)}: none of them can be used with "
                f"ssl.enabled.protocols={','.join(protocols)}. Name suites of these protocols."
            )
        if older:
            _set(context, older)
    versions = [_VERSIONS[each] for each in allowed]
    context.minimum_version, context.maximum_version = min(versions), max(versions)


def _choose_suites(suites: list[str]) -> list[str]:
    """The suites of TLS 1.2 in OpenSSL's words; those of TLS 1.3 must be there all or not at all."""
    newer = _TLS_1_3_SUITES.intersection(suites)
    if newer and newer != _TLS_1_3_SUITES:
        raise ConfigError(
            f"Cannot accept ssl.cipher.suites with {','.join(sorted(newer))} only: Python cannot choose among the "
            f"suites of TLS 1.3. Name all of them ({','.join(sorted(_TLS_1_3_SUITES))}), or none, which serves TLS 1.2 "
            "alone."
        )
    return [openssl_name(suite) for suite in suites if suite not in _TLS_1_3_SUITES]


def openssl_name(suite: str) -> str:
    """OpenSSL's name of a suite of TLS 1.2 that may have Java's."""
    match = _JAVA_NAME.fullmatch(suite)
    if match is None:
        return suite
    exchange, signature, rest = match.groups()
    rest = re.sub(r"AES_(\d+)", r"AES\1", rest).replace("_CBC", "").replace("CCM_8", "CCM8")
    if rest.startswith("CHACHA20"):
        rest = rest.removesuffix("_SHA256")
    return "-".join([*([exchange, signature] if exchange else []), *rest.split("_")])


def _set(context: ssl.SSLContext, names: list[str]) -> None:
    for name in names:
        try:
            if not re.fullmatch(r"[A-Z0-9-]+", name):
                raise ssl.SSLError
            context.set_ciphers(name)
        except ssl.SSLError:
            raise ConfigError(
                f"Cannot accept ssl.cipher.suites: OpenSSL here has no suite {name}. Remove it, or choose from what "
                "`openssl ciphers -stdname -tls1_2` prints."
            ) from None
    context.set_ciphers(":".join(names))
