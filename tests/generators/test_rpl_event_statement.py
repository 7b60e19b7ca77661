"""MWL#120 `rpl_event_statement_base` and its events, of logs that real servers recorded."""

from __future__ import annotations

from decimal import Decimal

from tailrace.generators import UserVariable

LABELS = (
    *("plain", "non_transactional", "variables", "rand", "insert_id", "last_insert_id", "replaced"),
    *("updated", "deleted", "multi", "uuid", "temporary", "error", "settings", "ddl"),
)


def test_rpl_event_statement_query(statements):
    """Its context is that of the session when it was executed, as the server told it."""
    for label in LABELS:
        query, session = statements.query(label), statements.session[label]
        assert query.connection_id == session["pseudo_thread_id"]
        assert query.query_bytes.decode() == query.query_string
        assert f"\n{query.query_string}\n" in statements.text


def test_get_current_db(statements):
    for label in LABELS:
        assert statements.query(label).current_database == statements.session[label]["database"]


def test_get_query_string(statements):
    query = statements.query("plain")
    assert query.query_string == "INSERT INTO t (v) VALUES ('plain') /* plain */"


def test_get_sql_mode(statements):
    """Its bits are those that the server calls by the names that the session had."""
    for label in LABELS:
        mode = statements.query(label).sql_mode
        assert statements.modes[mode] == statements.session[label]["sql_mode"]


def test_get_character_set_client_and_collations(statements):
    for label in LABELS:
        for name in ("character_set_client", "collation_connection", "collation_server"):
            assert getattr(statements.query(label), name) == statements.session[label][name]


def test_get_collation_default_db(statements):
    """Servers log it where it differs from the server's; else it is the server's."""
    found = statements.query("plain").collation_database
    assert found in (None, statements.session["plain"]["collation_database"])


def test_get_flags(statements):
    for label in LABELS:
        query, session = statements.query(label), statements.session[label]
        assert query.foreign_key_checks is bool(session["foreign_key_checks"])
        assert query.unique_checks is bool(session["unique_checks"])
        assert query.auto_is_null is bool(session["sql_auto_is_null"])


def test_get_auto_increment_offset_and_increment(statements):
    for label in LABELS:
        query, session = statements.query(label), statements.session[label]
        assert (query.auto_increment_increment or 1) == session["auto_increment_increment"]
        assert (query.auto_increment_offset or 1) == session["auto_increment_offset"]


def test_time_zone(statements):
    assert statements.query("settings").time_zone == statements.session["settings"]["time_zone"]
    assert statements.query("plain").time_zone is None


def test_day_and_month_names(statements):
    """mysqlbinlog prints the locale's number; that of en_US is not logged."""
    (number,) = {int(each) for each in statements.shown(r"lc_time_names=(\d+)")} - {0}
    assert statements.query("settings").lc_time_names == number
    assert statements.session["settings"]["lc_time_names"] == "de_DE"
    assert statements.query("plain").lc_time_names is None


def test_last_insert_id(statements):
    used = statements.query("last_insert_id")
    assert used.last_insert_id == statements.session["last_insert_id"]["last_insert_id"]
    assert statements.query("plain").last_insert_id is None


def test_insert_id_and_get_uses_auto_increment(statements):
    query = statements.query("insert_id")
    assert query.insert_id == statements.facts["insert_id"]
    assert query.uses_auto_increment is True
    other = statements.query("deleted")
    assert other.uses_auto_increment is False
    assert other.insert_id is None


def test_random_seed(statements):
    ((first, second),) = statements.shown(r"RAND_SEED1=(\d+), @@RAND_SEED2=(\d+)")
    assert statements.query("rand").random_seeds == (int(first), int(second))
    assert statements.query("plain").random_seeds is None


def test_get_used_user_vars(statements):
    """Those that the statement reads: as many as mysqlbinlog sets, with what the session set."""
    found = {each.name: each for each in statements.query("variables").user_variables}
    collation = statements.shown(r"SET @`s`:=_utf8mb4 [^\n]* COLLATE `(\w+)`")[0]
    assert found == {
        "i": UserVariable("i", -5),
        "u": UserVariable("u", 18446744073709551615, None, True),
        "s": UserVariable("s", "gr\u00fcn", collation),
        "d": UserVariable("d", Decimal("1.50")),
        "r": UserVariable("r", 2.5),
        "z": UserVariable("z", None),
        "b": UserVariable("b", b"\x00\xff", "binary"),
    }
    assert list(found) == statements.shown(r"SET @`(\w)`:=")
    assert statements.query("plain").user_variables == ()


def test_get_uses_temporary_table(statements):
    assert statements.query("temporary").uses_temporary_tables is True
    assert statements.query("plain").uses_temporary_tables is False


def test_table_map_for_update(statements):
    """The statement changes the first and the second of its tables."""
    assert statements.query("multi").table_map_for_update == 0b11
    assert statements.query("plain").table_map_for_update is None


def test_get_errorcode(statements):
    """Of a statement that failed after it had changed a table without transactions."""
    assert statements.query("error").error_code == statements.facts["error"] == 1062
    events = statements.transaction("error")
    (end,) = [event for event in events if event.name == "stmt_end"]
    assert end.error_code == 1062
    (end,) = [event for event in statements.transaction("plain") if event.name == "stmt_end"]
    assert end.error_code == 0


def test_rpl_event_statement_load_query(statements):
    query = statements.named("stmt_load_query")[0]
    assert query.query_string.startswith("LOAD DATA INFILE")
    start, end = query.file_name_at
    assert b"rows.tsv' REPLACE INTO" in query.query_bytes[start:end]
    assert query.duplicates == "replace"
    assert query.current_database == "g"


def test_rpl_event_statement_load_data_block_get_block(statements):
    """The blocks are the file that the server read, and have its number."""
    blocks = statements.named("stmt_load_data_block")
    assert b"".join(each.block for each in blocks) == statements.facts["file"]
    assert {each.file_id for each in blocks} == {statements.named("stmt_load_query")[0].file_id}


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
