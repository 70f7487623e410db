"""Distinguished names and mapping rules against Java's and Kafka's own implementation."""

from __future__ import annotations

import random
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.security.distinguished_names import format_name
from penstock.security.principal_mapping import NoRuleApplies, PrincipalMapper
from tests.security.names import attribute, name

TYPES = (
    "2.5.4.3",
    "2.5.4.6",
    "2.5.4.7",
    "2.5.4.8",
    "2.5.4.9",
    "2.5.4.10",
    "2.5.4.11",
    "0.9.2342.19200300.100.1.1",
    "0.9.2342.19200300.100.1.25",
    "1.2.840.113549.1.9.1",
    "2.5.4.5",
    "2.5.4.12",
    "2.999.1",
)
TAGS = (0x0C, 0x13, 0x16)
TEXTS = (
    "",
    " ",
    "a",
    "  a b ",
    "#a",
    "a#",
    "a,b+c",
    '"<>;=\\',
    "Äpfel 漢字 😀",
    "\r a \r",
    "a\0b",
    "\ta\n",
    "O'Neill & Co./x",
)

MAPPINGS = [
    ("DEFAULT", "CN=alice,OU=x"),
    ("", "CN=alice"),
    ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "CN=serviceuser,OU=ServiceUsers,O=Unknown"),
    ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L", "CN=Admin,OU=Users,O=U,L=U,ST=U,C=U"),
    ("RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U , DEFAULT", "CN=bob,O=x"),
    ("RULE:^CN=x$/y/,DEFAULT", "CN=alice"),
    ("RULE:^CN=x$/y/", "CN=alice"),
    ("RULE:CN=(.*)/a$1b$2c/", "CN=alice"),
    ("RULE:CN=(.*)/$12/", "CN=alice"),
    ("RULE:CN=(.*)/$0!/", "CN=alice"),
    ("RULE:CN=(.*)/\\$1\\/x/", "CN=alice"),
    ("RULE:CN=a\\/(.*)/$1/", "CN=a/b"),
    ("RULE:^CN=([^,]*),O=a,b$/$1/,RULE:CN=(.*)/$1/", "CN=x,O=a,b"),
    ("RULE:/empty/", "CN=alice"),
    ("RULE:.*//", "CN=alice"),
    ("RULE:CN=(.*)/$1", "CN=alice"),
    ("RULE:CN=(.*)/$1/X", "CN=alice"),
    ("default", "CN=alice"),
    ("DEFAULT,", "CN=alice"),
    (",DEFAULT", "CN=alice"),
    ("rule:a/b/", "CN=alice"),
]


def ask_java(jars: Path, lines: Sequence[str]) -> list[str]:
    run = subprocess.run(
        ["java", "-cp", f"{jars}/*", str(Path(__file__).with_name("Names.java"))],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=True,
    )
    return [b64decode(line).decode() for line in run.stdout.splitlines()]


@pytest.mark.java
def test_names_are_printed_as_java_prints_them(kafka_jars: Path) -> None:
    chance = random.Random(2253)
    names = [name([attribute(oid, text, tag)]) for oid in TYPES for text in TEXTS for tag in TAGS]
    for _ in range(500):
        relative = [
            [
                attribute(
                    chance.choice(TYPES), "".join(chance.choices(' ,=+<>#;"\\aBé\r0', k=chance.randrange(6))), tag
                )
                for tag in chance.choices(TAGS, k=chance.choice((1, 1, 1, 2, 3)))
            ]
            for _ in range(chance.randrange(1, 5))
        ]
        names.append(name(*relative))
    lines = [b64encode(each).decode() for each in names]
    assert ask_java(kafka_jars, lines) == [format_name(each) for each in names]


def mapped(rules: str, distinguished_name: str) -> str:
    try:
        return PrincipalMapper(rules).name_of(distinguished_name)
    except NoRuleApplies:
        return "none applies"
    except ValueError:
        return "malformed"


@pytest.mark.java
def test_rules_do_what_they_do_in_kafka(kafka_jars: Path) -> None:
    lines = [" ".join(b64encode(each.encode()).decode() for each in case) for case in MAPPINGS]
    ours = dict(zip(MAPPINGS, (mapped(*case) for case in MAPPINGS), strict=True))
    assert dict(zip(MAPPINGS, ask_java(kafka_jars, lines), strict=True)) == ours
