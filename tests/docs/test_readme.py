"""The README, and the programs of docs/how-to/connect.md, run as they stand but for the port."""

from __future__ import annotations

from penstock.testing import Broker
from tests.docs.blocks import Blocks, carries_out
from tests.docs.reader import Reader, follow


@carries_out("README.md")
def test_the_readme_does_what_it_says(reader: Reader, blocks: Blocks) -> None:
    follow(reader, blocks)


@carries_out("how-to/connect.md", each=True)
def test_the_client_examples_read_back_what_they_sent(reader: Reader, blocks: Blocks, penstock_broker: Broker) -> None:
    reader.port = penstock_broker.port
    follow(reader, blocks)
    assert reader.printed.strip() == "b'hello, stream'"
