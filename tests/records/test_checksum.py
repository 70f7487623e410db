"""CRC-32C, without the weight of its package."""

from __future__ import annotations

import subprocess
import sys

import crc32c as package
from hypothesis import given
from hypothesis import strategies as st

from penstock.records.checksum import crc32c


def test_it_is_castagnolis() -> None:
    assert crc32c(b"123456789") == 0xE3069283


@given(data=st.binary(max_size=300))
def test_it_is_the_packages_own(data: bytes) -> None:
    assert crc32c(memoryview(data)) == package.crc32c(data)


def test_it_uses_the_processors_instruction_where_there_is_one() -> None:
    assert package.hardware_based


def test_importing_it_loads_nothing_that_a_broker_does_not_need() -> None:
    program = (
        "import sys, penstock.records.batch; print('importlib.metadata' in sys.modules, 'argparse' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout == "False False\n"
