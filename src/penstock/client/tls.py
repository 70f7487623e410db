"""TLS: from settings to an `ssl.SSLContext`, and from what goes wrong in a handshake to what can be done about it.

The brokers' certificates are checked against `ssl_cafile` (without it, against the system's certificate authorities)
and against the host name. `ssl_certfile` and `ssl_keyfile` are this client's own certificate, for brokers that request
one. All of it is PEM, in files or in the settings themselves. A program with other requirements passes an `ssl_context`
of its own.

Python loads a private key from a file only. A key in the settings is passed in memory (memfd), so that it is never on a
disk.
"""

from __future__ import annotations

import ssl

from penstock.client.errors import TlsFailed, UsageError
from penstock.client.security import SecurityConfig
from penstock.memory_file import memory_file

_HOST_NAME_MISMATCH = {62, 64}  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH
_VERSIONS = {"TLSV1.2": ssl.TLSVersion.TLSv1_2, "TLSV1.3": ssl.TLSVersion.TLSv1_3}
_JKS, _DER = b"\xfe\xed\xfe\xed", b"\x30"
_PLAINTEXT_ANSWERS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST")


def context_of(config: SecurityConfig) -> ssl.SSLContext | None:
    """The context to connect with; None connects in plain text."""
    if not config.has_tls:
        return None
    if config.ssl_context is not None:
        return config.ssl_context
    _refuse_other_formats("truststore", config.ssl_cafile, config.ssl_truststore_type)
    _refuse_other_formats("keystore", config.ssl_certfile, config.ssl_keystore_type)
    try:
        context = ssl.create_default_context(
            cafile=config.ssl_cafile or None, cadata=config.ssl_truststore_certificates or None
        )
    except OSError as error:  # ssl.SSLError is one
        setting = f"ssl_cafile {config.ssl_cafile!r}" if config.ssl_cafile else "ssl_truststore_certificates"
        raise UsageError(f"{setting} cannot be read as PEM certificates: {error}") from error
    context.check_hostname = config.ssl_check_hostname
    _limit_versions(context, config.ssl_enabled_protocols)
    if config.ssl_certfile or config.ssl_keystore_key:
        _load_own_certificate(context, config)
    return context


def _limit_versions(context: ssl.SSLContext, enabled: str) -> None:
    if not enabled:
        return
    versions = [_VERSIONS.get(name.strip().upper()) for name in enabled.split(",")]
    known = [version for version in versions if version is not None]
    if len(known) < len(versions):
        raise UsageError(f"ssl_enabled_protocols is {enabled!r}; it must be TLSv1.2, TLSv1.3 or both")
    context.minimum_version, context.maximum_version = min(known), max(known)


def _load_own_certificate(context: ssl.SSLContext, config: SecurityConfig) -> None:
    # Passwords are handed in by a function: OpenSSL would ask the terminal for that of an encrypted key otherwise.
    try:
        if config.ssl_certfile:
            context.load_cert_chain(config.ssl_certfile, config.ssl_keyfile or None, lambda: config.ssl_password)
        else:
            pem = f"{config.ssl_keystore_key}\n{config.ssl_keystore_certificate_chain}\n"
            with memory_file(pem.encode()) as path:
                context.load_cert_chain(path, password=lambda: config.ssl_password)
    except OSError as error:
        setting = (
            f"ssl_certfile {config.ssl_certfile!r} with ssl_keyfile {config.ssl_keyfile!r}"
            if config.ssl_certfile
            else "ssl_keystore_certificate_chain with ssl_keystore_key"
        )
        raise UsageError(
            f"{setting} cannot be used ({error}); both must be PEM, and ssl_password must open the key if it is "
            "encrypted"
        ) from error


def _refuse_other_formats(store: str, path: str, type_: str) -> None:
    """Refuse what Java keeps its certificates in, with the command that makes PEM of it."""
    kind = type_.strip().upper()
    if not path and kind in ("", "PEM"):
        return
    head = _first_bytes(path)
    if head.startswith(_JKS):
        kind = "JKS"
    elif head.startswith(_DER):
        kind = "PKCS12"
    elif kind in ("", "PEM"):
        return
    shown = path or f"{store}.{'p12' if kind == 'PKCS12' else 'jks'}"
    if store == "truststore":
        command = f"keytool -list -rfc -keystore {shown} > ca.pem"
    else:
        to_pem = f"openssl pkcs12 -in {shown if kind == 'PKCS12' else 'client.p12'} -out client.pem"
        to_pkcs12 = f"keytool -importkeystore -srckeystore {shown} -destkeystore client.p12 -deststoretype PKCS12"
        command = to_pem if kind == "PKCS12" else f"{to_pkcs12} && {to_pem}"
    raise UsageError(f"the {store} is {kind}, which is not supported; convert it to PEM: {command}")


def _first_bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(4)
    except OSError:
        return b""  # whoever loads it says what is wrong with it


def explained(address: str, error: ssl.SSLError) -> TlsFailed:
    """What a failed handshake means."""
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _HOST_NAME_MISMATCH:
            return TlsFailed(
                f"the certificate of {address} is for another host ({error.verify_message}); use the name that it is "
                "for, or set ssl_check_hostname=False"
            )
        return TlsFailed(
            f"the certificate of {address} is not trusted ({error.verify_message}); name a PEM file with the "
            "certificate authority that signed it in ssl_cafile"
        )
    reason = error.reason or str(error)
    if reason in _PLAINTEXT_ANSWERS:
        return TlsFailed(f"{address} does not speak TLS: is it a plaintext listener?")
    if "CERTIFICATE" in reason or "UNKNOWN_CA" in reason:
        return TlsFailed(
            f"{address} wants a certificate of this client that it trusts ({reason}); name one that its authority has "
            "signed in ssl_certfile and ssl_keyfile"
        )
    return TlsFailed(f"the TLS handshake with {address} failed ({reason})")
