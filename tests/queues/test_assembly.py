"""Only the acquired records go out, however the producer batched them."""

from __future__ import annotations

import pytest

from penstock.queues import assembly
from penstock.queues.assembly import BatchCache, split_entries
from penstock.queues.transitions import AcquiredRange, Unreadable
from penstock.records.batch import BatchHeader, Buffer, iter_headers
from penstock.records.builder import build_batch
from penstock.records.codecs import Codec
from penstock.records.cutting import OpenedBatch
from penstock.records.record import iter_batches_records

PLENTY = 1 << 30


class FakeLog:
    """Batches one after the other, read as the broker reads them: from the batch that holds an offset on."""

    def __init__(self, *batches: Buffer) -> None:
        self.data = b"".join(bytes(batch) for batch in batches)
        self.reads = 0

    def load(self, offset: int) -> Buffer:
        self.reads += 1
        for position, header in iter_headers(self.data):
            if header.last_offset >= offset:
                return self.data[position:]
        return b""


def batch(base_offset: int, number: int, codec: Codec = Codec.NONE, size: int = 10) -> bytes:
    records = [(1_000 + i, None, b"%d" % (base_offset + i) + b"." * size, ()) for i in range(number)]
    return bytes(build_batch(records, base_offset=base_offset, codec=codec))


def offsets(parts: list[Buffer]) -> list[int]:
    return [record.offset for record in iter_batches_records(b"".join(bytes(part) for part in parts))]


def acquired(*spans: tuple[int, int]) -> list[AcquiredRange]:
    return [AcquiredRange(first, last, 1) for first, last in spans]


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_that_is_acquired_in_part_is_cut(codec: Codec) -> None:
    log = FakeLog(batch(0, 100, codec))
    done = BatchCache().assemble(acquired((20, 39)), PLENTY, log.load)
    assert offsets(done.parts) == list(range(20, 40))
    first = next(iter_batches_records(bytes(done.parts[0]))).value
    assert first is not None
    assert first.startswith(b"20.")


def test_a_batch_that_is_acquired_whole_goes_out_as_it_is_stored() -> None:
    stored = batch(0, 100, Codec.GZIP)
    done = BatchCache().assemble(acquired((0, 99)), PLENTY, FakeLog(stored).load)
    assert [bytes(part) for part in done.parts] == [stored]


def test_a_large_batch_is_read_and_opened_once_while_it_is_handed_out() -> None:
    log = FakeLog(batch(0, 1_000, Codec.ZSTD))
    cache = BatchCache()
    got = []
    for first in range(0, 1_000, 20):
        got += offsets(cache.assemble(acquired((first, first + 19)), PLENTY, log.load).parts)
    assert got == list(range(1_000))
    assert log.reads == 1


def test_many_small_batches_are_gathered_into_one_answer() -> None:
    log = FakeLog(*(batch(offset, 1) for offset in range(50)))
    done = BatchCache().assemble(acquired((0, 19), (30, 39)), PLENTY, log.load)
    assert offsets(done.parts) == [*range(20), *range(30, 40)]


def test_ranges_may_span_batches_and_touch_only_parts_of_them() -> None:
    log = FakeLog(batch(0, 10), batch(10, 10), batch(20, 10))
    done = BatchCache().assemble(acquired((5, 24)), PLENTY, log.load)
    assert offsets(done.parts) == list(range(5, 25))


def test_the_bytes_of_an_answer_are_bounded_but_one_record_always_fits() -> None:
    log = FakeLog(batch(0, 10, size=1_000), batch(10, 10, size=1_000))
    done = BatchCache().assemble(acquired((0, 19)), 5_000, log.load)
    assert 1 <= len(offsets(done.parts)) <= 6
    assert done.ranges == [AcquiredRange(0, len(offsets(done.parts)) - 1, 1)]
    tiny = BatchCache().assemble(acquired((3, 19)), 1, log.load)
    assert offsets(tiny.parts) == [3]
    assert tiny.ranges == [AcquiredRange(3, 3, 1)]


def test_what_the_log_has_lost_is_left_out_of_the_bytes() -> None:
    log = FakeLog(batch(0, 5), batch(10, 5))
    done = BatchCache().assemble(acquired((3, 11)), PLENTY, log.load)
    assert offsets(done.parts) == [3, 4, 10, 11]
    assert done.ranges == acquired((3, 11))


def test_the_cache_lets_go_of_what_is_done_and_of_what_is_too_much() -> None:
    log = FakeLog(batch(0, 10), batch(10, 10), batch(20, 10))
    cache = BatchCache()
    cache.assemble(acquired((0, 29)), PLENTY, log.load)
    cache.forget_below(15)
    assert len(cache) == 2
    small = BatchCache(lambda: 100)
    assert offsets(small.assemble(acquired((0, 29)), PLENTY, log.load).parts) == list(range(30))
    assert offsets(small.assemble(acquired((0, 29)), PLENTY, log.load).parts) == list(range(30))


def test_entries_are_split_into_the_clients_acknowledgement_batches() -> None:
    assert split_entries(acquired((0, 4)), 2) == acquired((0, 1), (2, 3), (4, 4))
    assert split_entries(acquired((0, 4)), 5) == acquired((0, 4))
    assert split_entries(acquired((0, 4)), 0) == acquired((0, 4))


def test_a_batch_that_cannot_be_opened_is_named_with_its_reason_and_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rotten = bytearray(batch(10, 10))
    rotten[-1] ^= 1
    log = FakeLog(batch(0, 10), rotten, batch(20, 10))
    cache = BatchCache()
    done = cache.assemble(acquired((5, 18), (20, 24)), PLENTY, log.load)
    assert [(first, last) for first, last, _ in done.unreadable] == [(10, 19)]
    assert offsets(done.parts) == [*range(5, 10), *range(20, 25)]
    monkeypatch.setattr(assembly, "OpenedBatch", pytest.fail)
    assert cache.assemble(acquired((12, 13)), PLENTY, log.load).unreadable == done.unreadable


def test_a_batch_that_goes_out_whole_is_left_for_its_reader_to_check() -> None:
    rotten = bytearray(batch(0, 10))
    rotten[-1] ^= 1
    done = BatchCache().assemble(acquired((0, 9)), PLENTY, FakeLog(rotten).load)
    assert done.is_complete
    assert [bytes(part) for part in done.parts] == [bytes(rotten)]


def test_offsets_that_the_log_no_longer_has_are_named() -> None:
    sparse = build_batch([(0, None, b"a", ()), (0, None, b"b", ())], base_offset=10, offset_deltas=[1, 4])
    log = FakeLog(batch(0, 3), sparse, batch(18, 2))
    done = BatchCache().assemble(acquired((2, 21)), PLENTY, log.load)
    assert done.absent == [(3, 9), (10, 10), (12, 13), (15, 17), (20, 21)]
    assert not done.is_complete


def sparse(base_offset: int = 10) -> bytearray:
    """Records at the second and the fifth offset of the batch."""
    records = [(0, None, b"a", ()), (0, None, b"b", ())]
    return build_batch(records, base_offset=base_offset, offset_deltas=[1, 4])


def header_of(data: Buffer) -> BatchHeader:
    return next(iter_headers(data))[1]


def test_a_batch_that_does_not_fit_waits_for_the_next_answer() -> None:
    log = FakeLog(*(batch(offset, 1, size=500) for offset in range(4)))
    size = len(batch(0, 1, size=500))
    for max_bytes, number in ((2 * size - 1, 1), (2 * size, 2), (3 * size - 1, 2), (3 * size, 3)):
        done = BatchCache().assemble(acquired((0, 3)), max_bytes, log.load)
        assert done.ranges == acquired((0, number - 1))
        assert done.size == number * size


def test_an_answer_ends_with_the_records_of_a_batch_that_fit() -> None:
    first, second = batch(0, 10, size=1_000), batch(10, 10, size=1_000)
    log = FakeLog(first, second)
    per_record = len(second) // 10
    for more, last in ((per_record - 1, 9), (per_record, 10), (9 * per_record, 18)):
        done = BatchCache().assemble(acquired((0, 19)), len(first) + more, log.load)
        assert done.ranges == acquired((0, last))
        assert offsets(done.parts) == list(range(last + 1))


def test_nothing_but_the_range_goes_out_where_more_would_fit() -> None:
    data = batch(0, 10, size=1_000)
    done = BatchCache().assemble(acquired((5, 6)), 8 * (len(data) // 10), FakeLog(data).load)
    assert offsets(done.parts) == [5, 6]


def test_a_compressed_batch_that_was_opened_still_goes_out_as_it_is_stored() -> None:
    stored = batch(0, 100, Codec.ZSTD, size=1_000)
    log, cache = FakeLog(stored), BatchCache()
    opened = cache.assemble(acquired((10, 19)), PLENTY, log.load)
    assert cache.assemble(acquired((0, 99)), len(stored), log.load).parts == [stored]
    part = cache.assemble(acquired((0, 98)), opened.size, log.load)
    assert offsets(part.parts) == list(range(9)), "a part is unpacked, and measured as it goes out"


def test_what_is_cached_is_not_read_again() -> None:
    log, cache = FakeLog(batch(0, 1), batch(1, 1)), BatchCache()
    for _ in range(2):
        assert offsets(cache.assemble(acquired((0, 1)), PLENTY, log.load).parts) == [0, 1]
    assert log.reads == 1
    cache.put(header_of(batch(0, 1)), batch(0, 1))
    assert len(cache) == 2


def test_the_cache_is_emptied_when_it_holds_more_than_it_may() -> None:
    data = [batch(offset, 1) for offset in range(8)]
    cache = BatchCache(lambda: 2 * len(data[0]))
    lengths = []
    for each in data[:6]:
        cache.put(header_of(each), each)
        lengths.append(len(cache))
    assert lengths == [1, 2, 3, 1, 2, 3]
    cache.forget_below(5)
    for each in data[6:]:
        cache.put(header_of(each), each)
    assert len(cache) == 3, "what is forgotten makes room"


@pytest.mark.parametrize(("spare", "left"), [(0, 2), (-1, 1)])
def test_what_a_batch_unpacks_to_counts_in_the_cache(spare: int, left: int) -> None:
    stored = batch(0, 100, Codec.ZSTD, size=1_000)
    size = len(stored) + OpenedBatch(stored).size
    cache = BatchCache(lambda: size + spare)
    cache.assemble(acquired((0, 9)), PLENTY, FakeLog(stored).load)
    cache.put(header_of(batch(100, 1)), batch(100, 1))
    assert len(cache) == left


def test_records_of_an_uncached_batch_are_read_when_another_holds_its_place() -> None:
    """The log was cut off and has grown again, before the window over it was thrown away."""
    log, cache = FakeLog(batch(5, 10)), BatchCache()
    cache.put(header_of(batch(0, 10)), batch(0, 10))
    assert offsets(cache.assemble(acquired((12, 13)), PLENTY, log.load).parts) == [12, 13]
    assert len(cache) == 1


def test_holes_that_are_known_are_not_looked_for() -> None:
    rotten = sparse()
    rotten[-1] ^= 1
    cache = BatchCache()
    cache.put(header_of(rotten), rotten)
    cache.put(header_of(rotten), rotten, [(10, 10), (12, 13)])
    cache.put(header_of(rotten), rotten)
    done = cache.assemble(acquired((10, 14)), PLENTY, FakeLog().load)
    assert (done.absent, done.unreadable) == ([(10, 10), (12, 13)], [])
    other = BatchCache()
    other.put(header_of(rotten), rotten, [(10, 10), (12, 13)])
    assert other.assemble(acquired((10, 14)), PLENTY, FakeLog().load).unreadable == []


@pytest.mark.parametrize(
    ("span", "absent"), [((11, 11), []), ((11, 12), [(12, 12)]), ((13, 14), [(13, 13)]), ((10, 10), [(10, 10)])]
)
def test_only_holes_of_the_range_are_named(span: tuple[int, int], absent: list[tuple[int, int]]) -> None:
    assert BatchCache().assemble(acquired(span), PLENTY, FakeLog(sparse()).load).absent == absent


def test_a_range_goes_on_after_a_batch_that_cannot_be_opened() -> None:
    rotten = bytearray(sparse())
    rotten[-1] ^= 1
    log = FakeLog(batch(5, 5), rotten, batch(15, 5))
    done = BatchCache().assemble(acquired((7, 17)), PLENTY, log.load)
    assert done.unreadable == [Unreadable(10, 14, "the stored checksum does not match the batch")]
    assert offsets(done.parts) == [7, 8, 9, 15, 16, 17]
    assert done.absent == []


@pytest.mark.parametrize(
    ("span", "batch_size", "entries"),
    [
        ((0, 2), 1, [(0, 0), (1, 1), (2, 2)]),
        ((0, 3), 2, [(0, 1), (2, 3)]),
        ((5, 10), 5, [(5, 9), (10, 10)]),
    ],
)
def test_entries_have_as_many_records_as_fit(
    span: tuple[int, int], batch_size: int, entries: list[tuple[int, int]]
) -> None:
    assert split_entries(acquired(span), batch_size) == acquired(*entries)


def test_a_record_counts_with_a_byte_at_least() -> None:
    stored = build_batch([(0, None, b"", ())] * 1_000, codec=Codec.ZSTD)
    done = BatchCache().assemble(acquired((0, 998)), 600, FakeLog(stored).load)
    assert done.ranges == acquired((0, 599))
