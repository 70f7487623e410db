"""Whatever bytes arrive, a decoder gives a message or says MalformedMessage, and never anything else."""

from __future__ import annotations

import random

import pytest

from penstock.wire import messages as m
from penstock.wire.codec import MalformedMessage, decode, decode_versioned, encode
from penstock.wire.frames import parse_request_header
from tests.fuzz.fuzzing import DEFAULT_SECONDS, LONG_SECONDS, fuzz, mutated
from tests.wire.samples import all_message_names, filled


def fuzz_a_message(source: random.Random) -> None:
    cls = m.message_class(source.choice(all_message_names()))
    versions = cls.SCHEMA.versions
    version = source.randint(versions.low, versions.high)
    original = encode(filled(cls, version), version)
    for _ in range(50):
        data = source.randbytes(source.randrange(300)) if source.random() < 0.1 else mutated(source, original)
        try:
            message = decode(cls, data, version)
        except MalformedMessage:
            continue
        # What was understood can be said again, and is then understood the same way.
        again = encode(message, version)
        assert encode(decode(cls, again, version), version) == again


def fuzz_a_header(source: random.Random) -> None:
    for _ in range(50):
        try:
            _, position = parse_request_header(memoryview(source.randbytes(source.randrange(60))))
            assert position >= 10
        except MalformedMessage:
            pass


def fuzz_a_versioned_value(source: random.Random) -> None:
    cls = m.message_class(source.choice(["OffsetCommitValue", "GroupMetadataValue", "ConsumerProtocolSubscription"]))
    for _ in range(50):
        try:
            decode_versioned(cls, source.randbytes(source.randrange(100)))
        except MalformedMessage:
            pass


def test_decoders_survive_broken_messages() -> None:
    fuzz(DEFAULT_SECONDS, fuzz_a_message, fuzz_a_header, fuzz_a_versioned_value)


@pytest.mark.long
@pytest.mark.timeout(LONG_SECONDS + 120)
def test_decoders_survive_broken_messages_for_long() -> None:
    fuzz(LONG_SECONDS, fuzz_a_message, fuzz_a_header, fuzz_a_versioned_value)
