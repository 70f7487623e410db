"""Putting a cleaned segment in the place of those it was made from, so that a crash at any step does no harm.

1. The side files go from `.cleaned` to `.swap`, then the `.log` file does. That last rename is the decision: before it
   an interrupted swap is undone, after it it is completed. The cleaner has synced all of them beforehand.
2. The files of the old segments are renamed to `.deleted`.
3. The `.swap` files get their final names, the `.log` file last.

The order of renames is kept by the file system's journal; none is overtaken by a later one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from penstock.log.files import SegmentFile, remove_if_there
from penstock.log.segment import LOG_SUFFIX, SUFFIXES, file_stem, walk_batches

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
# The log file comes last in every step.
_ORDER = (*(suffix for suffix in SUFFIXES if suffix != LOG_SUFFIX), LOG_SUFFIX)


def decide_swap(folder: str, base_offset: int) -> None:
    """Step 1: from here on the cleaned segment counts."""
    stem = file_stem(folder, base_offset)
    for suffix in _ORDER:
        os.rename(stem + suffix + CLEANED_SUFFIX, stem + suffix + SWAP_SUFFIX)


def complete_swap(folder: str, base_offset: int) -> None:
    """Step 3: give the files their final names. Some may have them already."""
    stem = file_stem(folder, base_offset)
    for suffix in _ORDER:
        try:
            os.rename(stem + suffix + SWAP_SUFFIX, stem + suffix)
        except FileNotFoundError:
            continue


def discard_cleaned(folder: str, base_offset: int) -> None:
    """Give a cleaned segment up that was not swapped in."""
    for suffix in SUFFIXES:
        remove_if_there(file_stem(folder, base_offset) + suffix + CLEANED_SUFFIX)


def discard_leftovers(folder: str) -> None:
    """Remove what a cleaner process that was killed has written; nobody may be writing now."""
    for name in os.listdir(folder):
        if name.endswith(CLEANED_SUFFIX):
            remove_if_there(f"{folder}/{name}")


def finish_interrupted_swaps(folder: str, names: Iterable[str], base_offsets: Iterable[int]) -> bool:
    """Undo or complete what a crash interrupted, from the names in the folder. True if live files have changed."""
    swap_names = [name for name in names if name.endswith(SWAP_SUFFIX)]
    decided = sorted(int(name[:20]) for name in swap_names if name.endswith(LOG_SUFFIX + SWAP_SUFFIX))
    for name in swap_names:
        if int(name[:20]) not in decided:
            remove_if_there(f"{folder}/{name}")
    for base_offset in decided:
        end_offset = _end_offset(folder, base_offset)
        for replaced in base_offsets:
            if base_offset < replaced < end_offset:
                for suffix in SUFFIXES:
                    remove_if_there(file_stem(folder, replaced) + suffix)
        # Of the old segment with the same name nothing needs removing: every file of it is written over.
        complete_swap(folder, base_offset)
    return bool(decided)


def _end_offset(folder: str, base_offset: int) -> int:
    """The offset behind the last batch of a decided segment, which tells how far the segments it replaces reach.

    A segment that ends with offsets of which nothing was kept may stay behind. It is cleaned again: the round that it
    was part of has not been recorded as done.
    """
    path = file_stem(folder, base_offset) + LOG_SUFFIX + SWAP_SUFFIX
    end_offset = base_offset + 1
    for batch in walk_batches(SegmentFile(path, os.O_RDONLY), 0, os.stat(path).st_size, 1 << 16):
        end_offset = batch.last_offset + 1
    return end_offset
