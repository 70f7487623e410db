from __future__ import annotations

from pathlib import Path

from penstock.log.folder import DELETED_FOLDER_SUFFIX, PARTITION_METADATA_FILE, claim_folder, unused_name

ORDERS, LATER_ORDERS = bytes(15) + b"\1", bytes(15) + b"\2"


def test_a_folder_that_is_not_there_is_created_for_its_topic(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    assert claim_folder(folder, ORDERS) == (False, True)
    assert (folder / PARTITION_METADATA_FILE).read_text() == "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n"


def test_a_folder_of_this_topic_may_hold_its_records(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    claim_folder(folder, ORDERS)
    assert claim_folder(folder, ORDERS) == (True, False)


def test_a_folder_without_a_name_of_its_own_is_taken_over(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    assert claim_folder(folder, ORDERS) == (True, True)
    assert claim_folder(folder, ORDERS) == (True, False)


def test_a_folder_whose_name_a_power_cut_has_torn_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    claim_folder(folder, ORDERS)
    metadata = folder / PARTITION_METADATA_FILE
    whole = metadata.read_bytes()
    for torn in (b"", whole[:18], whole[:25] + bytes(len(whole) - 25)):
        metadata.write_bytes(torn)
        assert claim_folder(folder, ORDERS) == (True, True)
        assert metadata.read_bytes() == whole
    assert list(tmp_path.iterdir()) == [folder]


def test_the_folder_of_an_earlier_topic_of_the_same_name_is_put_aside_and_not_removed(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    claim_folder(folder, ORDERS)
    (folder / "a.log").write_bytes(b"records")
    assert claim_folder(folder, LATER_ORDERS) == (False, True)
    (aside,) = tmp_path.glob("*-stray")
    assert (aside / "a.log").read_bytes() == b"records"
    assert not (folder / "a.log").exists()


def test_a_name_that_is_out_of_use_is_cut_to_what_a_file_system_takes() -> None:
    name = unused_name(Path("/data") / ("x" * 249 + "-0"), "f" * 32, DELETED_FOLDER_SUFFIX).name
    assert len(name) == 255
    assert name.endswith("." + "f" * 32 + "-delete")
