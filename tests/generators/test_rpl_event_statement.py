"""MWL#120 `rpl_event_statement_base` and its events, of logs that real servers recorded."""

from __future__ import annotations

from decimal import Decimal

from tailrace.generators import UserVariable

LABELS = (
    *("plain", "non_transactional", "variables", "rand", "insert_id", "last_insert_id", "replaced"),
    *("updated", "deleted", "multi", "uuid", "temporary", "error", "settings", "ddl"),
)


def test_rpl_event_statement_query(logged):
    """Its context is that of the session when it was executed, as the server told it."""
    for label in LABELS:
        for log in logged(label):
            query, session = log.query(label), log.session[label]
            assert query.connection_id == session["pseudo_thread_id"]
            assert query.query_bytes.decode() == query.query_string
            assert f"\n{query.query_string}\n" in log.text


def test_the_formats_have_these_statements(logged):
    """In MIXED those that are deterministic, in ROW definitions only."""
    found = {label: {log.format for log in logged(label)} for label in LABELS}
    assert found["ddl"] == {"STATEMENT", "MIXED", "ROW"}
    assert found["uuid"] == {"STATEMENT"}
    for label in ("plain", "variables", "insert_id", "settings", "error"):
        assert found[label] == {"STATEMENT", "MIXED"}


def test_get_current_db(logged):
    """Of the statement, and of its start and end."""
    for label in LABELS:
        for log in logged(label):
            database = log.session[label]["database"]
            assert log.query(label).current_database == database
            edges = [
                event
                for event in log.transaction(label)
                if event.name in ("stmt_start", "stmt_end")
                and event.position == log.query(label).position
            ]
            assert [event.current_database for event in edges] == [database, database]


def test_get_query_string(logged):
    for log in logged("plain"):
        query = log.query("plain")
        assert query.query_string == "INSERT INTO t (v) VALUES ('plain') /* plain */"


def test_get_sql_mode(logged):
    """Its bits are those that the server calls by the names that the session had."""
    for label in LABELS:
        for log in logged(label):
            assert log.modes[log.query(label).sql_mode] == log.session[label]["sql_mode"]


def test_get_character_set_client_and_collations(logged):
    for label in LABELS:
        for log in logged(label):
            for name in ("character_set_client", "collation_connection", "collation_server"):
                assert getattr(log.query(label), name) == log.session[label][name]


def test_get_collation_default_db(logged):
    """Servers log it where it differs from the server's; else it is the server's."""
    for log in logged("plain"):
        found = log.query("plain").collation_database
        assert found in (None, log.session["plain"]["collation_database"])


def test_get_flags(logged):
    for label in LABELS:
        for log in logged(label):
            query, session = log.query(label), log.session[label]
            assert query.foreign_key_checks is bool(session["foreign_key_checks"])
            assert query.unique_checks is bool(session["unique_checks"])
            assert query.auto_is_null is bool(session["sql_auto_is_null"])


def test_switches_of_the_session(logged):
    """MySQL logs some as status variables, MariaDB as flags."""
    for log in logged("implicit"):
        assert log.query("implicit").explicit_defaults_for_timestamp is False
        assert log.query("ddl").explicit_defaults_for_timestamp is (None if log.mysql else True)
        mariadb = (True, False, False) if not log.mysql else (None, None, None)
        query = log.query("ddl")
        found = query.check_constraint_checks, query.if_exists, query.inserts_history
        assert found == mariadb


def test_get_auto_increment_offset_and_increment(logged):
    for label in LABELS:
        for log in logged(label):
            query, session = log.query(label), log.session[label]
            assert (query.auto_increment_increment or 1) == session["auto_increment_increment"]
            assert (query.auto_increment_offset or 1) == session["auto_increment_offset"]


def test_time_zone(logged):
    for log in logged("settings"):
        assert log.query("settings").time_zone == log.session["settings"]["time_zone"]
        assert log.query("plain").time_zone is None


def test_day_and_month_names(logged):
    """mysqlbinlog prints the locale's number; that of en_US is not logged."""
    for log in logged("settings"):
        (number,) = {int(each) for each in log.shown(r"lc_time_names=(\d+)")} - {0}
        assert log.query("settings").lc_time_names == number
        assert log.session["settings"]["lc_time_names"] == "de_DE"
        assert log.query("plain").lc_time_names is None


def test_last_insert_id(logged):
    for log in logged("last_insert_id"):
        used = log.query("last_insert_id")
        assert used.last_insert_id == log.session["last_insert_id"]["last_insert_id"]
        assert log.query("plain").last_insert_id is None


def test_insert_id_and_get_uses_auto_increment(logged):
    for log in logged("insert_id"):
        query = log.query("insert_id")
        assert query.insert_id == log.facts["insert_id"]
        assert query.uses_auto_increment is True
        other = log.query("deleted")
        assert other.uses_auto_increment is False
        assert other.insert_id is None


def test_random_seed(logged):
    for log in logged("rand"):
        ((first, second),) = log.shown(r"RAND_SEED1=(\d+), @@RAND_SEED2=(\d+)")
        assert log.query("rand").random_seeds == (int(first), int(second))
        assert log.query("plain").random_seeds is None


def test_get_used_user_vars(logged):
    """Those that the statement reads: as many as mysqlbinlog sets, with what the session set."""
    for log in logged("variables"):
        found = {each.name: each for each in log.query("variables").user_variables}
        collation = log.shown(r"SET @`s`:=_utf8mb4 [^\n]* COLLATE `(\w+)`")[0]
        assert found == {
            "i": UserVariable("i", -5),
            "u": UserVariable("u", 18446744073709551615, None, True),
            "s": UserVariable("s", "gr\u00fcn", collation),
            "d": UserVariable("d", Decimal("1.50")),
            "r": UserVariable("r", 2.5),
            "z": UserVariable("z", None),
            "b": UserVariable("b", b"\x00\xff", "binary"),
        }
        assert list(found) == log.shown(r"SET @`(\w)`:=")
        assert log.query("plain").user_variables == ()


def test_get_uses_temporary_table(logged):
    for log in logged("temporary"):
        assert log.query("temporary").uses_temporary_tables is True
        assert log.query("plain").uses_temporary_tables is False


def test_table_map_for_update(logged):
    """The statement changes the first and the second of its tables."""
    for log in logged("multi"):
        assert log.query("multi").table_map_for_update == 0b11
        assert log.query("plain").table_map_for_update is None


def test_get_errorcode(logged):
    """Of a statement that failed after it had changed a table without transactions."""
    for log in logged("error"):
        assert log.query("error").error_code == log.facts["error"] == 1062
        events = log.transaction("error")
        (end,) = [event for event in events if event.name == "stmt_end"]
        assert end.error_code == 1062
        (end,) = [event for event in log.transaction("plain") if event.name == "stmt_end"]
        assert end.error_code == 0


def test_rpl_event_statement_load_query(recorded):
    loads = [log for log in recorded.values() if log.named("stmt_load_query")]
    assert recorded["STATEMENT"] in loads
    for log in loads:
        query = log.named("stmt_load_query")[0]
        assert query.query_string.startswith("LOAD DATA INFILE")
        start, end = query.file_name_at
        assert b"rows.tsv' REPLACE INTO" in query.query_bytes[start:end]
        assert query.duplicates == "replace"
        assert query.current_database == "g"


def test_rpl_event_statement_load_data_block_get_block(recorded):
    """The blocks are the file that the server read, and have its number."""
    loads = [log for log in recorded.values() if log.named("stmt_load_query")]
    assert recorded["STATEMENT"] in loads
    for log in loads:
        blocks = log.named("stmt_load_data_block")
        assert b"".join(each.block for each in blocks) == log.facts["file"]
        assert {each.file_id for each in blocks} == {log.named("stmt_load_query")[0].file_id}


def test_rpl_event_statement_start_and_end(recorded):
    """Each statement is between a start and an end, and so are the rows of one in row format."""
    for recording in recorded.values():
        opened = False
        for event in recording.events:
            if event.name == "stmt_start":
                assert not opened
                opened = True
            elif event.name == "stmt_end":
                assert opened
                opened = False
            else:
                assert opened is not event.name.startswith("trx")


def test_stmt_start_fires_in_row_format_with_the_text_if_it_was_logged(rows):
    """One for each statement that changed rows: the labels are those of the session."""
    for label in ("plain", "replaced", "updated", "deleted", "multi", "load", "settings"):
        (start,) = [
            event
            for event in rows.named("stmt_start")
            if f"/* {label} */" in (event.rows_query or "")
        ]
        assert start.current_database is None
        inside = [event.name for event in rows.transaction(label)]
        assert inside.count("stmt_start") == inside.count("stmt_end") == 1
        end = next(e for e in rows.transaction(label) if e.name == "stmt_end")
        assert end.error_code is None


def test_ddl_is_deferred_to_the_statement_generator_in_row_format(rows):
    query = rows.query("ddl")
    assert query.is_row_statement is False
    assert rows.has("ddl")
    assert not rows.has("plain")


def test_mixed_format_defers_what_is_deterministic(mixed):
    """The row generator takes what the server logged as rows, and nothing twice."""
    assert mixed.has("plain")
    assert not mixed.has("uuid")
    names = [event.name for event in mixed.transaction("uuid")]
    assert names == ["trx_start", "stmt_start", "row_write", "stmt_end", "trx_commit"]
    names = [event.name for event in mixed.transaction("plain")]
    assert names == ["trx_start", "stmt_start", "stmt_query", "stmt_end", "trx_commit"]
    assert mixed.query("plain").is_row_statement is True
