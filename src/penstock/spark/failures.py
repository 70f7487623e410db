"""What went wrong in a Spark job, without the pages of Java and Python that Spark wraps around it."""

from __future__ import annotations

import re

_OURS = re.compile(
    r"^(?:[\w.]*\.)?(DataLoss|WriteFailed|Unparsable|SchemaMismatch|ConcurrentLoad|UsageError|CorruptBatch|DecompressionLimit|"
    r"KafkaError|\w*Error|\w*Exception|Unknown\w+|Disconnected): (?P<text>.+)$"
)


def reason(error: BaseException) -> str:
    """The line that says why: the last Python error in a Spark error's text, or the error's own text."""
    text = str(error)
    found = ""
    for line in text.splitlines():
        matched = _OURS.match(line.strip())
        if matched is not None and not line.strip().startswith(("org.apache.spark", "java.", "pyspark.")):
            found = matched["text"]
    first = text.strip().splitlines()[0] if text.strip() else type(error).__name__
    return found or first
