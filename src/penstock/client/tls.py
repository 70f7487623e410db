"""TLS: from settings to an `ssl.SSLContext`, and from what goes wrong in a handshake to what can be done about it.

The brokers' certificates are checked against `ssl_cafile` (without it, against the system's certificate authorities)
and against the host name. `ssl_certfile` and `ssl_keyfile` are this client's own certificate, for brokers that ask for
one. All files are PEM. A program with other wishes hands in an `ssl_context` of its own.
"""

from __future__ import annotations

import ssl

from penstock.client.config import ClientConfig
from penstock.client.errors import TlsFailed, UsageError

_HOST_NAME_MISMATCH = {62, 64}  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH


def context_of(config: ClientConfig) -> ssl.SSLContext | None:
    """The context to connect with; None connects in plain text."""
    if config.ssl_context is not None:
        return config.ssl_context
    if config.security_protocol != "ssl" and not config.ssl_cafile and not config.ssl_certfile:
        return None
    try:
        context = ssl.create_default_context(cafile=config.ssl_cafile or None)
    except OSError as error:
        raise UsageError(f"ssl_cafile {config.ssl_cafile!r} cannot be read as PEM certificates: {error}") from error
    context.check_hostname = config.ssl_check_hostname
    if config.ssl_certfile:
        try:
            context.load_cert_chain(
                config.ssl_certfile, config.ssl_keyfile or None, lambda: config.ssl_password
            )  # a function, as OpenSSL would ask the terminal for the password of an encrypted key otherwise
        except OSError as error:
            raise UsageError(
                f"ssl_certfile {config.ssl_certfile!r} with ssl_keyfile {config.ssl_keyfile!r} cannot be used "
                f"({error}); both must be PEM, and ssl_password must open the key if it is encrypted"
            ) from error
    return context


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
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
        return TlsFailed(f"{address} does not speak TLS: is it a plaintext listener?")
    return TlsFailed(f"the TLS handshake with {address} failed ({reason})")
