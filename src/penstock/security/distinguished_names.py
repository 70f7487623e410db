"""The subject of a certificate as Kafka's principal has it: its distinguished name in the form of RFC 2253.

Java's `X500Principal.getName()` sets the form, because rules and ACLs are written for what Kafka prints: the last RDN
first, nine attribute types by name and the others as `OID=#hex`, a backslash before each special character.
"""

from __future__ import annotations

from typing import NamedTuple

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_SEQUENCE, _SET, _OID, _VERSION = 0x30, 0x31, 0x06, 0xA0
# UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString: what Java prints as text.
_TEXTS = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
_ESCAPED = frozenset(',=+<>#;"\\')
_BLANKS = " \r"


class MalformedCertificate(ValueError):
    """Bytes that are not a certificate in DER."""


class _Element(NamedTuple):
    tag: int
    content: bytes
    whole: bytes


def subject_name(certificate: bytes) -> str:
    """The subject of a certificate in DER. Raises MalformedCertificate."""
    (outer,) = _elements(certificate)
    fields = _elements(_elements(outer.content)[0].content)
    # An optional version, then: serial number, signature algorithm, issuer, validity, subject.
    at = 5 if fields[0].tag == _VERSION else 4
    if len(fields) <= at or fields[at].tag != _SEQUENCE:
        raise MalformedCertificate("a certificate without a subject")
    return format_name(fields[at].whole)


def format_name(name: bytes) -> str:
    """A distinguished name in DER as RFC 2253 writes it."""
    (sequence,) = _elements(name)
    return ",".join(_relative_name(element) for element in reversed(_elements(sequence.content)))


def _relative_name(element: _Element) -> str:
    if element.tag != _SET:
        raise MalformedCertificate("a name that is not made of sets")
    return "+".join(_attribute(each) for each in _elements(element.content))


def _attribute(element: _Element) -> str:
    parts = _elements(element.content)
    if len(parts) != 2 or parts[0].tag != _OID:
        raise MalformedCertificate("an attribute that is not a type and a value")
    oid, value = _object_identifier(parts[0].content), parts[1]
    keyword = _KEYWORDS.get(oid)
    if keyword is None or value.tag not in _TEXTS:
        return f"{keyword or oid}=#{value.whole.hex()}"
    return f"{keyword}={_escaped(value.content.decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    body = text.strip(_BLANKS)
    leading = len(text) - len(text.lstrip(_BLANKS)) if body else len(text)
    trailing = len(text) - leading - len(body)
    inner = "".join("\\00" if each == "\0" else f"\\{each}" if each in _ESCAPED else each for each in body)
    ends = text[:leading], text[len(text) - trailing :] if trailing else ""
    before, after = ("".join(f"\\{blank}" for blank in end) for end in ends)
    return before + inner + after


def _object_identifier(content: bytes) -> str:
    if not content or content[-1] & 0x80:
        raise MalformedCertificate("an object identifier that does not end")
    numbers: list[int] = []
    value = 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(str(number) for number in (first, numbers[0] - 40 * first, *numbers[1:]))


def _elements(data: bytes) -> list[_Element]:
    """The elements, one after the other, that DER-encoded bytes consist of."""
    elements: list[_Element] = []
    at = 0
    while at < len(data):
        start = at
        if at + 2 > len(data):
            raise MalformedCertificate("an element without a length")
        tag, length = data[at], data[at + 1]
        at += 2
        if length & 0x80:
            count = length & 0x7F
            if not 1 <= count <= 4 or at + count > len(data):
                raise MalformedCertificate("an element with an unusual length")
            length = int.from_bytes(data[at : at + count])
            at += count
        if at + length > len(data):
            raise MalformedCertificate("an element that is cut off")
        elements.append(_Element(tag, data[at : at + length], data[start : at + length]))
        at += length
    if not elements:
        raise MalformedCertificate("an element that is missing")
    return elements
