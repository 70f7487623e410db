"""Failures of commands, each with advice on the next step."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import click

# TOPIC_, GROUP_, CLUSTER_ and TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_DENIED = frozenset({29, 30, 31, 53})
# What the texts of errors open with. Any other word in front may be the name of something, which is not ours to spell.
_OPENERS = frozenset(
    {"a", "all", "an", "another", "broker", "brokers", "cannot", "certificate", "committing", "conflict", "each"}
    | {"every", "invalid", "it", "malformed", "network", "no", "nobody", "nothing", "offsets", "one", "only"}
    | {"partition", "records", "several", "the", "there", "these", "they", "this", "too", "topic", "transactions"}
    | {"two", "unknown"}
)


class Failure(click.ClickException):
    """A command failed; the message says what to do next. Exit status 1."""

    exit_code = 1


def nearest(name: str, names: Iterable[str]) -> str | None:
    found = difflib.get_close_matches(name, list(names), n=1, cutoff=0.6)
    return found[0] if found else None


@contextmanager
def advice(ctx: click.Context) -> Iterator[None]:
    """Turn the errors of the client into failures with advice."""
    try:
        yield
    except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
        raise
    except Exception as error:
        explanation = explain(error, ctx.params.get("bootstrap"))
        if explanation is None:
            raise
        raise Failure(explanation) from error


def explain(error: Exception, bootstrap: object = None) -> str | None:
    """The text for an error that a user may meet; None for one that is a bug of ours."""
    from penstock.client.errors import AuthenticationFailed, BrokerUnreachable, TlsFailed, UsageError
    from penstock.wire.errors import KafkaError

    if isinstance(error, BrokerUnreachable):
        address = f" at {bootstrap}" if bootstrap else ""
        return (
            f"No broker answers{address}.\n"
            "  Start one here:     penstock serve\n"
            "  Or name another:    --bootstrap HOST:PORT (or PENSTOCK_BOOTSTRAP=HOST:PORT)\n"
            f"  ({error})"
        )
    if isinstance(error, AuthenticationFailed):
        return (
            f"{sentence(str(error))}\n"
            "  Log in as:          --user NAME (the password is asked for, or --password-file, PENSTOCK_PASSWORD)\n"
            "  Or without TLS:     --user NAME --security-protocol SASL_PLAINTEXT"
        )
    if isinstance(error, TlsFailed):
        return f"{sentence(str(error))}\n  Trust an authority: --ca-file FILE"
    if isinstance(error, KafkaError) and error.code in _DENIED:
        return f"{sentence(str(error))}\n  Ask what is missing: penstock acl explain USER OPERATION TYPE NAME"
    if isinstance(error, (KafkaError, UsageError)):
        return sentence(str(error) or type(error).__name__)
    return None


def sentence(text: str) -> str:
    """The text of an error with a capital in front, if it opens with a word of ours and not with a name or a path."""
    return text[0].upper() + text[1:] if text.partition(" ")[0] in _OPENERS else text


def unknown_topic(name: str, topics: Iterable[str]) -> Failure:
    """There is no such topic: perhaps it was misspelt, perhaps it is to be created."""
    guess = nearest(name, topics)
    lines = [f"There is no topic {name!r}."]
    if guess:
        lines.append(f"  Did you mean:       {guess}")
    lines.append(f"  Create it:          penstock topic create {name}")
    lines.append("  See all topics:     penstock topic list")
    return Failure("\n".join(lines))
