"""JSON documents: JSON's null beside SQL's, and partial updates whose document the log has not."""

import json
import re

import pytest

from tailrace.cli import app
from tailrace.columns import changes
from tailrace.columns.text.row_json import images_to_json, null_documents
from tailrace.errors import UnsupportedType
from tailrace.values.change_record import image_json
from tailrace.values.row import RowSet
from tests.columns.write.encode_oracle import rows_events
from tests.values.replay import since
from tools.campaign.witnesses import json_lines

DOCUMENTS = ["null", None, "[null]", " null ", '"null"', "{}"]


def logged(server, *statements):
    """The log of some statements."""
    first = server.rotate().name
    with server.connect(autocommit=True) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
    return since(server, first)


@pytest.fixture(scope="module")
def nulls(request):
    """A log of documents: inserted, and in updates."""
    server = request.getfixturevalue(request.param)
    values = ", ".join(
        f"({number}, {'NULL' if text is None else repr(text)})"
        for number, text in enumerate(DOCUMENTS)
    )
    return logged(
        server,
        "DROP DATABASE IF EXISTS nulls",
        "CREATE DATABASE nulls",
        "CREATE TABLE nulls.t (id INT PRIMARY KEY, j JSON)",
        f"INSERT INTO nulls.t VALUES {values}",
        "UPDATE nulls.t SET id = id + 100",
    )


SERVERS = pytest.mark.parametrize("nulls", ["mysql97", "mariadb118"], indirect=True)


@SERVERS
def test_null_is_told_from_null_in_images_of_batches(nulls):
    """As in records: the same images, the same ``_raw``. `tools.campaign.documents` compares more of
    them with what SELECT gives.
    """
    lines = [json.loads(line) for line in json_lines(nulls, None)]
    null = {"after.j": "null"}
    assert [line["_raw"] for line in lines if "_raw" in line] == [
        *(null, null),
        *[{"before.j": "null", **null}] * 2,
    ]
    at = 0
    for event, schema, table in rows_events(nulls):
        rows = list(RowSet(event, schema))
        for batch in table.to_batches():
            raw = [dict(each or ()) for each in null_documents(batch, schema).to_pylist()]
            assert raw == [line.get("_raw", {}) for line in lines[at : at + len(rows)]]
            got = images_to_json(batch, schema, "after").to_pylist()
            assert got == [image_json(row.after) for row in rows]
            at += len(rows)
    assert at == len(lines)


PARTIAL = [
    """UPDATE partial.t SET j = JSON_SET(j, '$.a', 2, '$.b[0]', '"q" é', '$.d', 1.5)""",
    """UPDATE partial.t SET j = JSON_REMOVE(j, '$.b[1]', '$.d'), v = 6,
    k = JSON_SET(k, '$.z', CAST('2024-01-02' AS DATE))""",
    """UPDATE partial.t SET j = JSON_SET(j, '$.b[5]', x'00ff', '$.c', CAST('[1, {}]' AS JSON)),
    k = JSON_SET(k, '$."a b"', NULL)""",
    "UPDATE partial.t SET j = JSON_SET(j, '$.a', 2), v = 7",
]


@pytest.fixture(scope="module")
def partial(mysql97):
    """Partial updates in MINIMAL images."""
    document = "JSON_OBJECT('a', 1, 'b', JSON_ARRAY(1, 2, 3), 'z', 1, 'filler', REPEAT('x', 100))"
    mysql97.execute("DROP DATABASE IF EXISTS partial")
    return logged(
        mysql97,
        "SET binlog_row_image = MINIMAL, binlog_row_value_options = PARTIAL_JSON",
        "SET binlog_transaction_compression = OFF",
        "CREATE DATABASE partial",
        "CREATE TABLE partial.t (id INT PRIMARY KEY, j JSON, v INT, k JSON)",
        f"INSERT INTO partial.t VALUES (1, {document}, 5, {document})",
        *PARTIAL,
    )


def mysqlbinlog_says(server, series):
    """What the server's tool shows of each partial update, on one line, columns by their names."""
    (file,) = series.files
    output = server.mysqlbinlog("-v", "--base64-output=DECODE-ROWS", file.path).stdout.decode()
    lines = [line[4:].strip() for line in output.splitlines() if line.startswith("###   ")]
    text = "\n".join(lines)
    text = re.sub(r"\n(?!@\d=)|(?<=\()\n", " ", text).replace("( ", "(")
    text = re.sub(r"@(\d)", lambda found: "?ijvk"[int(found[1])], text)
    return [line.partition("=")[2] for line in text.split("\n") if line[:2] in {"j=", "k="}][2:]


def test_partial_updates_are_shown_as_mysqlbinlog_shows_them(partial, mysql97, capsys):
    expected = mysqlbinlog_says(mysql97, partial)
    assert (
        expected[0] == """JSON_INSERT(JSON_REPLACE(j, '$.a', 2, '$.b[0]', '"q" é'), '$.d', 1.5)"""
    )
    (file,) = partial.files
    app(["log", file.path], exit_on_error=False, result_action="return_value")
    shown = re.findall(
        r"[ ,] ([jk]): \? → (.*?)(?=, [jvk]: \?|$)", capsys.readouterr().out, re.MULTILINE
    )
    assert [text for _, text in shown] == expected


def test_partial_updates_in_records(partial):
    """As they were logged: operation, path, value; the image has no value of the document."""
    records = [json.loads(line) for line in json_lines(partial, None)][1:]
    assert all(not {"j", "k"} & record["after"].keys() for record in records)
    assert [record["_diff"] for record in records] == [
        {
            "after.j": [
                {"op": "replace", "path": "$.a", "value": 2},
                {"op": "replace", "path": "$.b[0]", "value": '"q" é'},
                {"op": "insert", "path": "$.d", "value": 1.5},
            ]
        },
        {
            "after.j": [{"op": "remove", "path": "$.b[1]"}, {"op": "remove", "path": "$.d"}],
            "after.k": [{"op": "replace", "path": "$.z", "value": "2024-01-02"}],
        },
        {
            "after.j": [
                {"op": "insert", "path": "$.b[5]", "value": "base64:type15:AP8="},
                {"op": "insert", "path": "$.c", "value": [1, {}]},
            ],
            "after.k": [{"op": "insert", "path": '$."a b"', "value": None}],
        },
        {"after.j": []},
    ]
    assert [record["after"].get("v") for record in records] == [None, 6, None, 7]


def test_batches_have_no_place_for_them(partial):
    """The error names the column, the table, the file and the position; the rows before it are read."""
    (file,) = partial.files
    where = rf"^{file.name} at \d+: partial\.t: column j: a partial JSON update"

    def read(found, **options):
        for batch in changes(partial, **options):
            found += [row["v"] for row in batch.column("after").to_pylist()]
        return found

    before = []
    with pytest.raises(UnsupportedType, match=where):
        read(before)
    assert before == [5]
    assert read([], columns=["id", "v"]) == [5, None, 6, None, 7]
