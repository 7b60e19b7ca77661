"""Foreign keys that change rows below the log: `mirror` says which tables they concern."""

import pytest

from tailrace.cli.mirror.command import mirror as command
from tailrace.spark import mirror, verify
from tests.spark.following import Follow

DATABASE = "cascading"
TABLES = (
    f"CREATE DATABASE {DATABASE}",
    f"USE {DATABASE}",
    "CREATE TABLE p (id INT PRIMARY KEY)",
    (
        "CREATE TABLE gone (id INT PRIMARY KEY, p INT,"
        " FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE)"
    ),
    (
        "CREATE TABLE emptied (id INT PRIMARY KEY, p INT, CONSTRAINT k FOREIGN KEY (p)"
        " REFERENCES p (id) ON DELETE SET NULL ON UPDATE CASCADE)"
    ),
    "CREATE TABLE left_out LIKE gone",
    "ALTER TABLE left_out ADD FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE",
    "CREATE TABLE kept (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (id))",
    "CREATE TABLE later (id INT PRIMARY KEY, p INT)",
    "INSERT INTO p VALUES (1), (2)",
    "INSERT INTO gone VALUES (1, 1), (2, 2)",
    "INSERT INTO emptied VALUES (1, 1), (2, 2)",
    "DELETE FROM p WHERE id = 1",
)
KEYS = {
    f"{DATABASE}.gone": (f"(p) REFERENCES {DATABASE}.p (id) ON DELETE CASCADE",),
    f"{DATABASE}.emptied": (
        f"(p) REFERENCES {DATABASE}.p (id) ON DELETE SET NULL ON UPDATE CASCADE",
    ),
}
LATER = "ALTER TABLE later ADD FOREIGN KEY (p) REFERENCES p (id) ON UPDATE CASCADE"
DROPPED = ("ALTER TABLE emptied DROP FOREIGN KEY k", "DROP TABLE gone")


@pytest.mark.parametrize(
    ("name", "settings", "logged"),
    [
        ("mysql-9.7", {}, True),
        ("mysql-9.7", {"innodb_native_foreign_keys": "ON"}, False),
        ("mariadb-11.8", {}, False),
    ],
)
def test_tables_are_named(spark, fresh_server, tmp_path, capsys, name, settings, logged):
    """Those of the lake whose rows the log lacks: as `verify` says; and none where it has them."""
    server = fresh_server(name, {"binlog_row_metadata": "FULL"} | settings)
    for sql in TABLES:
        server.execute(sql)
    said = []
    options = {"spark": spark, "exclude": "left_out", "notice": said.append}
    url = f"mysql://root@127.0.0.1:{server.port}"
    report = mirror(url, tmp_path / "lake", **options)
    checked = verify(url, tmp_path / "lake", spark=spark)
    differ = {table.name for table in checked.tables if table.differing}
    assert differ == (set() if logged else set(KEYS))
    notes = {table.name: table.notes for table in checked.tables if table.notes}
    below = "foreign keys change its rows, and the log has nothing of it"
    assert notes == (
        {} if logged else {name: (f"{below}: {key}",) for name, (key,) in KEYS.items()}
    )
    if logged:
        assert (report.cascades, said) == ({}, [])
    else:
        assert report.cascades == KEYS
        (line,) = said
        assert line.startswith("cascading.emptied, cascading.gone: foreign keys change rows there")

    server.execute(LATER)
    server.execute(f"INSERT INTO {DATABASE}.p VALUES (3)")
    added = KEYS | {f"{DATABASE}.later": (f"(p) REFERENCES {DATABASE}.p (id) ON UPDATE CASCADE",)}
    assert mirror(url, tmp_path / "lake", **options).cascades == ({} if logged else added)
    if name != "mysql-9.7":  # whose files do not say whether it logs them
        said.clear()
        report = mirror(server.data, tmp_path / "files", **options)
        assert report.cascades == added
        assert len(said) == 1
        command(str(server.data), into=str(tmp_path / "command"))
        lines = capsys.readouterr().err.splitlines()
        assert [line for line in lines if "foreign keys change rows" in line] == [
            f"tailrace: {said[0]}".replace("cascading.later", "cascading.later, cascading.left_out")
        ]
        for sql in DROPPED:
            server.execute(sql)
        assert list(mirror(server.data, tmp_path / "files", **options).cascades) == [
            f"{DATABASE}.later"
        ]
    elif logged:
        assert mirror(server.data, tmp_path / "files", **options).cascades == {}


def test_a_key_that_comes_while_it_follows(fresh_server, tmp_path):
    """And who may see no table on the server has the keys from its log."""
    server = fresh_server("mariadb-11.8", {"binlog_row_metadata": "FULL"})
    server.execute("CREATE USER reader@'127.0.0.1'")
    server.execute("GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO reader@'127.0.0.1'")
    for sql in TABLES:
        server.execute(sql)
    named = []  # by as many sentences as batches, and a batch has what is received by then

    def notice(text):
        named.extend(text.partition(": ")[0].split(", "))

    url = f"mysql://reader@127.0.0.1:{server.port}"
    with Follow(url, tmp_path / "lake", notice=notice) as run:
        run.wait_for(lambda: len(named) >= 3)
        assert sorted(named) == ["cascading.emptied", "cascading.gone", "cascading.left_out"]
        server.execute(LATER)
        server.execute(f"INSERT INTO {DATABASE}.p VALUES (3)")
        run.wait_for(lambda: len(named) > 3)
    assert named[3:] == ["cascading.later"]
    assert set(run.report.cascades) == {*KEYS, f"{DATABASE}.later", f"{DATABASE}.left_out"}
