"""What to say about a broker config that neither Kafka nor Penstock has.

Kafka accepts such names, because plugins read configs of their own. Most often it is a typing error, or a topic config
where the broker's is meant; without a word the user would wait for an effect that never comes.
"""

from __future__ import annotations

from penstock.broker.config.broker import BROKER
from penstock.broker.config.topic import BROKER_SYNONYMS

_CLOSE_ENOUGH = 0.8


def describe_unknown(name: str) -> str:
    """A sentence about an unknown config, with the name that was probably meant."""
    nearest = _nearest(name)
    question = f"; did you mean {nearest}?" if nearest else ""
    return f"{name} is not a config of Penstock or Kafka{question}"


def _nearest(name: str) -> str | None:
    from difflib import get_close_matches

    words = name.strip().lower().replace("_", ".").replace("-", ".")
    if words in BROKER:
        return words
    if words in BROKER_SYNONYMS:
        return BROKER_SYNONYMS[words][0][0]
    matches = get_close_matches(words, BROKER, n=1, cutoff=_CLOSE_ENOUGH)
    return matches[0] if matches else None
