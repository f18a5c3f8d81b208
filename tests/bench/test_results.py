"""Result files: what is written, read, and never replaced."""

from __future__ import annotations

import json

import pytest

from longtail.bench.results import check_writable, read_results, result_file, table_rows, write_result
from longtail.errors import DataError, OutputError

RESULT = {
    "dataset": "small", "recipe": "one", "command": "longtail bench recipes/small/one.toml", "metrics": {"P@1": 12.344},
    "train_s": 1.26,
}  # fmt: skip


def test_what_a_result_does_not_have_is_a_dash():
    (row,) = table_rows([RESULT], ("recipe", "P@1", "PSP@1", "tail R@5", "train s", "model MB"))
    assert row == ["one", "12.34", "–", "–", "1.3", "–"]


def test_a_result_replaces_itself_and_nothing_else(tmp_path):
    file = write_result(RESULT, tmp_path)
    assert file == result_file(tmp_path, "small", "one")
    write_result(RESULT | {"train_s": 2.0}, tmp_path)
    assert read_results(tmp_path)["small"]["one"]["train_s"] == 2.0
    (file.parent / ".one.json.01234567.tmp").write_text("what a killed process left")
    write_result(RESULT | {"train_s": 3.0}, tmp_path)
    assert [path.name for path in file.parent.iterdir()] == ["one.json"]


@pytest.mark.parametrize(
    "content",
    [
        "my notes", "[" * 100_000, "[1, 2]", '{"recipe": "one"}', json.dumps(RESULT | {"recipe": "another"}),
        json.dumps(RESULT | {"dataset": "another"}), json.dumps(RESULT | {"metrics": 3}),
    ],
)  # fmt: skip
def test_a_file_of_another_hand_is_refused_and_kept(tmp_path, content):
    file = result_file(tmp_path, "small", "one")
    file.parent.mkdir()
    file.write_text(content)
    for attempt in (lambda: check_writable(file), lambda: write_result(RESULT, tmp_path)):
        with pytest.raises(OutputError, match="was not written by longtail bench"):
            attempt()
    assert file.read_text() == content


def test_a_folder_or_a_dead_link_in_the_place_of_a_result_is_refused(tmp_path):
    file = result_file(tmp_path, "small", "one")
    file.mkdir(parents=True)
    with pytest.raises(OutputError, match="was not written by longtail"):
        check_writable(file)
    link = result_file(tmp_path, "small", "two")
    link.symlink_to(tmp_path / "nowhere")
    with pytest.raises(OutputError, match="was not written by longtail"):
        check_writable(link)


def test_checking_a_place_makes_no_folders(tmp_path):
    check_writable(result_file(tmp_path / "new" / "folder", "small", "one"))
    assert list(tmp_path.iterdir()) == []


def test_reading_names_a_file_that_is_no_result(tmp_path):
    write_result(RESULT, tmp_path)
    (tmp_path / "small" / "two.json").write_text("{}")
    with pytest.raises(DataError, match=r"two\.json.*not a result"):
        read_results(tmp_path)
