"""MWL#120 `rpl_event_statement_base` and its events, of logs that real servers recorded."""

from decimal import Decimal

from tailrace.generators import UserVariable

LABELS = (
    *("plain", "non_transactional", "variables", "rand", "insert_id", "last_insert_id", "replaced"),
    *("updated", "deleted", "multi", "uuid", "temporary", "error", "settings", "ddl"),
)


def test_rpl_event_statement_query_has_the_context_of_its_session(logged):
    """When it was executed, as the server told it."""
    for label in LABELS:
        for log in logged(label):
            query, session = log.query(label), log.session[label]
            assert query.connection_id == session["pseudo_thread_id"]
            # get_query_string
            assert query.query_bytes.decode() == query.query_string
            assert f"\n{query.query_string}\n" in log.text
            # get_sql_mode: its bits are those that the server calls by the session's names
            assert log.modes[query.sql_mode] == session["sql_mode"]
            # get_character_set_client and the collations
            for name in ("character_set_client", "collation_connection", "collation_server"):
                assert getattr(query, name) == session[name]
            # get_flags
            assert query.foreign_key_checks is bool(session["foreign_key_checks"])
            assert query.unique_checks is bool(session["unique_checks"])
            assert query.auto_is_null is bool(session["sql_auto_is_null"])
            # get_auto_increment_offset and _increment
            assert (query.auto_increment_increment or 1) == session["auto_increment_increment"]
            assert (query.auto_increment_offset or 1) == session["auto_increment_offset"]
            # get_current_db: of the statement, and of its start and end
            edges = [
                event
                for event in log.transaction(label)
                if event.name in ("stmt_start", "stmt_end") and event.position == query.position
            ]
            assert len(edges) == 2
            assert {each.current_database for each in (query, *edges)} == {session["database"]}


def test_get_query_string_and_collation_default_db(logged):
    """Servers log the database's collation where it differs from the server's."""
    for log in logged("plain"):
        query = log.query("plain")
        assert query.query_string == "INSERT INTO t (v) VALUES ('plain') /* plain */"
        assert query.collation_database in (None, log.session["plain"]["collation_database"])


def test_switches_of_the_session(logged):
    """MySQL logs some as status variables, MariaDB as flags."""
    for log in logged("implicit"):
        assert log.query("implicit").explicit_defaults_for_timestamp is False
        assert log.query("ddl").explicit_defaults_for_timestamp is (None if log.mysql else True)
        mariadb = (True, False, False) if not log.mysql else (None, None, None)
        query = log.query("ddl")
        found = query.check_constraint_checks, query.if_exists, query.inserts_history
        assert found == mariadb


def test_time_zone_and_names_of_days_and_months(logged):
    """mysqlbinlog prints the locale's number; that of en_US is not logged."""
    for log in logged("settings"):
        query, plain, session = log.query("settings"), log.query("plain"), log.session["settings"]
        assert (query.time_zone, plain.time_zone) == (session["time_zone"], None)
        (number,) = {int(each) for each in log.shown(r"lc_time_names=(\d+)")} - {0}
        assert session["lc_time_names"] == "de_DE"
        assert (query.lc_time_names, plain.lc_time_names) == (number, None)


def test_insert_ids_and_get_uses_auto_increment(logged):
    for log in logged("last_insert_id"):
        session = log.session["last_insert_id"]
        assert log.query("last_insert_id").last_insert_id == session["last_insert_id"]
        assert log.query("plain").last_insert_id is None
    for log in logged("insert_id"):
        query, other = log.query("insert_id"), log.query("deleted")
        assert (query.insert_id, query.uses_auto_increment) == (log.facts["insert_id"], True)
        assert (other.insert_id, other.uses_auto_increment) == (None, False)


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


def test_get_uses_temporary_table_and_table_map_for_update(logged):
    for log in logged("temporary"):
        assert log.query("temporary").uses_temporary_tables is True
        assert log.query("plain").uses_temporary_tables is False
    for log in logged("multi"):  # it changes the first and the second of its tables
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


def test_rpl_event_statement_load_query_and_load_data_block_get_block(recorded):
    """The blocks are the file that the server read, and have its number."""
    loads = [log for log in recorded.values() if log.named("stmt_load_query")]
    assert recorded["STATEMENT"] in loads
    for log in loads:
        query, *_ = log.named("stmt_load_query")
        assert query.query_string.startswith("LOAD DATA INFILE")
        start, end = query.file_name_at
        assert b"rows.tsv' REPLACE INTO" in query.query_bytes[start:end]
        assert (query.duplicates, query.current_database) == ("replace", "g")
        blocks = log.named("stmt_load_data_block")
        assert b"".join(each.block for each in blocks) == log.facts["file"]
        assert {each.file_id for each in blocks} == {query.file_id}


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
