"""Subjects of certificates as Java's X500Principal prints them; test_names_java asks Java itself."""

from __future__ import annotations

import ssl

import pytest

from penstock.certificates import make_certificates
from penstock.security.distinguished_names import MalformedCertificate, format_name, subject_name
from tests.security.names import attribute, element, name

CN, C, OU, EMAIL, DC = "2.5.4.3", "2.5.4.6", "2.5.4.11", "1.2.840.113549.1.9.1", "0.9.2342.19200300.100.1.25"


def test_the_last_part_comes_first() -> None:
    assert format_name(name([attribute(C, "DE")], [attribute(OU, "Ops")], [attribute(CN, "alice")])) == (
        "CN=alice,OU=Ops,C=DE"
    )


def test_parts_with_several_values_keep_their_order() -> None:
    assert format_name(name([attribute(CN, "alice"), attribute(OU, "b"), attribute(DC, "c")])) == "CN=alice+OU=b+DC=c"


def test_types_without_a_name_are_numbers_with_their_bytes() -> None:
    assert format_name(name([attribute(EMAIL, "a@b", 0x16)])) == "1.2.840.113549.1.9.1=#1603614062"


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("Smith, John", "Smith\\, John"),
        ('a+b"c<d>e;f=g#h\\i', 'a\\+b\\"c\\<d\\>e\\;f\\=g\\#h\\\\i'),
        ("  a  ", "\\ \\ a\\ \\ "),
        (" ", "\\ "),
        ("", ""),
        ("a\0b", "a\\00b"),
        ("Jürgen 漢字", "Jürgen 漢字"),
    ],
)
def test_special_characters_are_escaped(text: str, printed: str) -> None:
    assert format_name(name([attribute(CN, text)])) == f"CN={printed}"


def test_the_subject_is_found_in_a_certificate() -> None:
    made = make_certificates(["localhost"], ["alice"])
    assert subject_name(ssl.PEM_cert_to_DER_cert(made.clients["alice"].certificate)) == "CN=alice"
    assert subject_name(ssl.PEM_cert_to_DER_cert(made.authority.certificate)) == "CN=Penstock CA"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x30",
        b"\x30\x05ab",
        b"\x30\x85\x00\x00\x00\x00\x00",
        element(0x30, element(0x30, element(0x02, b"\x01"))),
        element(0x30, b""),
    ],
)
def test_what_is_no_certificate_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedCertificate):
        subject_name(data)


@pytest.mark.parametrize(
    "data",
    [
        element(0x30, element(0x30, b"")),
        name([element(0x30, element(0x06, b"\x55\x84") + element(0x0C, b"x"))]),
        name([element(0x30, element(0x06, b"\x55"))]),
    ],
)
def test_what_is_no_name_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedCertificate):
        format_name(data)
