"""The corpus keeps equal tables once, also after recordings were replaced."""

import json

from tests.recorded import folders
from tools.expected import load_expected, share, unshare, write_expected


def test_to_share_again_changes_no_file(tmp_path):
    for folder in folders():
        (tmp_path / folder.name).mkdir()
        (tmp_path / folder.name / "expected.json").write_bytes(
            (folder / "expected.json").read_bytes()
        )
    unshare(tmp_path)
    for folder in folders():
        held = json.loads((tmp_path / folder.name / "expected.json").read_text("utf-8"))
        assert isinstance(held["tables"], dict)
        assert held == load_expected(folder)
    share(tmp_path)
    for folder in folders():
        path = tmp_path / folder.name / "expected.json"
        assert path.read_bytes() == (folder / "expected.json").read_bytes(), folder.name


def test_a_holder_that_is_recorded_again_changes_no_other_recording(tmp_path):
    given = {"a": "1", "b": "1", "c": "2"}

    def read(name):
        return load_expected(tmp_path / name)["tables"]["d.t"]["rows"]

    def write(name, value):
        (tmp_path / name).mkdir(exist_ok=True)
        write_expected(tmp_path / name, {"tables": {"d.t": {"rows": [[value]]}}})

    for name, value in given.items():
        write(name, value)
    share(tmp_path)
    assert json.loads((tmp_path / "b" / "expected.json").read_text()) == {"tables": "a"}
    unshare(tmp_path)
    write("a", "2")
    share(tmp_path)
    assert {name: read(name) for name in given} == {"a": [["2"]], "b": [["1"]], "c": [["2"]]}
    assert json.loads((tmp_path / "c" / "expected.json").read_text()) == {"tables": "a"}
