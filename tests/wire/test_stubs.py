from __future__ import annotations

from pathlib import Path

from penstock.wire import messages, stubs


def test_the_stub_file_is_what_the_schemas_give() -> None:
    stub = Path(messages.__file__).with_suffix(".pyi")
    assert stub.read_text("utf-8") == stubs.render(), "run python -m penstock.wire.stubs"
