"""docs/how-to/cluster.md, done in one go over a PostgreSQL and an S3 server: serve, look, back up, restore, move.

Three machines are three folders and ports here, and the AWS command line is a program that copies objects as it does.
"""

from __future__ import annotations

import re
import shlex
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.cluster import COMMANDS
from tests.broker.process import free_port
from tests.docs.blocks import Block, Blocks, blocks_of, carries_out, commands
from tests.docs.reader import Reader, follow
from tests.postgres import PostgresServer
from tests.seaweedfs import SeaweedServer

PAGE = "how-to/cluster.md"
RIGHTS, SEVERAL, STATUS, BACKUP = "Rights", "Several brokers", "How is the cluster doing?", "Backup and restore"
MOVING = "A data folder into a cluster, and out of it"

AWS = """\
#!{python}
import sys
from obstore.store import from_url

source, target = (from_url(url, client_options={{"allow_http": True}}) for url in sys.argv[3:5])
for page in source.list():
    for found in page:
        target.put(found["path"], bytes(source.get(found["path"]).bytes()))
"""


@pytest.fixture
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
def s3() -> Iterator[SeaweedServer]:
    with SeaweedServer() as server:
        yield server


class Operator(Reader):
    serves_together = True
    endless = ("penstock cluster status --cluster postgresql://penstock@db.example/penstock --watch",)

    def __init__(self, folder: Path, postgres: PostgresServer, s3: SeaweedServer) -> None:
        super().__init__(folder)
        programs = folder / "programs"
        programs.mkdir()
        (programs / "aws").write_text(AWS.format(python=sys.executable))
        (programs / "aws").chmod(stat.S_IRWXU)
        self.environment |= s3.environment
        folders = [str(programs), str(Path(postgres.program("psql")).parent), self.environment["PATH"]]
        self.environment["PATH"] = ":".join(folders)
        self.administrator = postgres.url()
        self.postgres = postgres
        self.ports = {node_id: free_port() for node_id in (1, 2, 3)}
        self.databases("alone", "restored", "imported")

    def databases(self, *names: str) -> None:
        """Databases that the page says little about, for the user that it makes."""
        self.run(f"psql {self.administrator} -qc 'CREATE ROLE stock LOGIN'")
        for name in names:
            created = f"CREATE DATABASE {name} OWNER stock ENCODING UTF8 TEMPLATE template0"
            self.run(f'psql {self.administrator} -qc "{created}"')

    def address(self, database: str) -> str:
        return self.postgres.url(user="stock", database=database)

    def place(self, text: str) -> str:
        text = re.sub(r"node\.id=(\d) --data /var/lib/penstock", r"node.id=\1 --data machine-\1", text)
        text = text.replace("node.id=1 ", "node.id=1 -c penstock.metrics.listen=127.0.0.1:9644 ")
        for node_id, port in self.ports.items():
            text = text.replace(f"10.0.0.{node_id}:9092", f"127.0.0.1:{port}")
        text = text.replace("postgresql://penstock@db.example/penstock?sslmode=verify-full", self.address("alone"))
        text = text.replace("postgresql://penstock@db.example/restored", self.address("restored"))
        text = re.sub(r"--cluster URL|postgresql://penstock@db.example/penstock", self._cluster, text)
        if self.heading == MOVING:  # another cluster than that of the sections before
            text = text.replace("s3://bucket/prefix", "s3://bucket/imported")
        text = text.replace("broker-1:9644", "127.0.0.1:9644").replace("/var/lib/penstock", "single")
        return super().place(text.replace("KEY_ID=…", "KEY_ID=key").replace("KEY=…", "KEY=secret").replace("=…", "=x"))

    def _cluster(self, written: re.Match[str]) -> str:
        address = self.address("imported" if self.heading == MOVING else "penstock")
        return f"--cluster {address}" if "URL" in written[0] else address

    heading = ""

    def other(self, block: Block) -> bool:
        self.heading = block.heading
        if block.language == "sql":
            script = block.text.replace("CREATE ROLE penstock LOGIN;\n", "").replace("penstock;\n", "stock;\n")
            script = script.replace("connect stock", "connect penstock")
            self.run(f"psql {self.administrator} -qv ON_ERROR_STOP=1 <<'END'\n{script}END")
            return True
        if block.heading == STATUS:  # while the three brokers serve
            self.close()
            follow(self, Blocks(PAGE, [each for each in blocks_of(PAGE) if each.heading == SEVERAL]))
            self.heading = block.heading
        if block.heading == MOVING:
            self.close()
            self.brokers.append(self.serve("penstock serve --data single"))
            self.run("penstock topic create orders; seq 10 | penstock produce orders")
            self.close()
        if block.heading == SEVERAL or "adopt-backup" in block.text:  # another cluster, with empty data folders
            self.close()
            self.run("rm -rf penstock-data")
        return False


@pytest.mark.timeout(600)
@carries_out(PAGE)
def test_the_page_does_what_it_says(
    tmp_path: Path, blocks: Blocks, postgres: PostgresServer, s3: SeaweedServer
) -> None:
    reader = Operator(tmp_path, postgres, s3)
    try:
        rights_first = sorted(blocks, key=lambda block: block.heading != RIGHTS)
        for block in rights_first:
            follow(reader, Blocks(PAGE, [block]))
            blocks.done.append(block)
            if block.heading == SEVERAL:
                reader.run(f"penstock topic create kept --bootstrap 127.0.0.1:{reader.ports[1]} --partitions 3")
                reader.run(f"seq 7 | penstock produce kept --bootstrap 127.0.0.1:{reader.ports[2]}")
                large = "head -c 600000 /dev/urandom | base64 -w 0"  # too large for PostgreSQL: an object
                reader.run(f"penstock topic create large --bootstrap 127.0.0.1:{reader.ports[2]}")
                reader.run(f"{large} | penstock produce large --bootstrap 127.0.0.1:{reader.ports[2]}")
            if "adopt-backup" in block.text:
                assert reader.run("penstock consume kept --from beginning --exit-at-end | sort") == numbers(7)
        reader.brokers.append(reader.serve("penstock serve --data single-out"))
        assert reader.run("penstock consume orders --from beginning --exit-at-end | sort -n") == numbers(10)
    finally:
        reader.close()


def numbers(last: int) -> str:
    return "".join(f"{number}\n" for number in range(1, last + 1))


def test_the_page_shows_every_command() -> None:
    typed = [shlex.split(command) for block in blocks_of(PAGE) for command in commands(block.text)]
    assert {words[2] for words in typed if words[:2] == ["penstock", "cluster"]} == set(COMMANDS)
