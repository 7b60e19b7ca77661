"""The page's server by HTTP: what it gives, what it rejects, and what it lets a query cost."""

import contextlib
import http.client
import json
import socket
import subprocess
import sys
import threading
from urllib.parse import quote, urlsplit

import pytest

import tailrace
from tailrace.errors import StorageError, UsageError
from tailrace.search import index
from tailrace.search_page import server as module
from tailrace.search_page.server import BEGINNINGS, CONNECTIONS, HITS, LONGEST, TABLES, PageServer
from tailrace.writing.log import now_us
from tests.waiting import DEADLINE, wait_for
from tests.writing import made

HOSTILE = [
    "<img src=x onerror=alert(1)> battery",
    "</script><script>alert(2)</script> battery",
    "battery \u202e \x00 \x1b[31m & < > \" '",
]
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)


def log_of(path, tables):
    """A log with the rows of tables, in one transaction."""
    with made.log(path, "mysql", now=now_us) as log, log.transaction() as transaction:
        for name, texts in tables.items():
            columns = "id int primary key, note varchar(10000) character set utf8mb4"
            table = tailrace.Table.parse(f"create table {name} ({columns})")
            transaction.insert(table, [{"id": at, "note": each} for at, each in enumerate(texts)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    work = tmp_path_factory.mktemp("page")
    many = [f"battery number {at} {'x' * 40} " * 50 for at in range(300)]
    log_of(work / "binlog.000001", {"shop.products": HOSTILE, "shop.reviews": many})
    index(work / "binlog.000001", work / "index")
    return work / "index"


@contextlib.contextmanager
def running(server):
    """A page's server in another thread; its address."""
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield urlsplit(server.url)
    finally:
        server.stop()
        thread.join(DEADLINE)


@pytest.fixture(scope="module")
def patient():
    """An answer may take as long as it takes on a busy machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SECONDS", DEADLINE)
        yield


@pytest.fixture(scope="module")
def site(folder, patient):
    with running(PageServer(folder, "127.0.0.1:0")) as url:
        yield url


def get(site, path, method="GET", **headers):
    """Status, headers and body; ``path`` goes out as it is."""
    with contextlib.closing(
        http.client.HTTPConnection(site.hostname, site.port, timeout=DEADLINE)
    ) as to:
        to.putrequest(method, path, skip_host="Host" in headers, skip_accept_encoding=True)
        for name, value in headers.items():
            to.putheader(name.replace("_", "-"), value)
        to.endheaders()
        response = to.getresponse()
        return response.status, response.headers, response.read()


def search(site, query, **more):
    parameters = "".join(f"&{name}={quote(str(value))}" for name, value in more.items())
    status, _, body = get(site, f"/search?q={quote(query)}{parameters}")
    return status, json.loads(body)


def test_rows_are_json_with_what_was_found(site):
    status, found = search(site, "number*", limit=1)
    assert (status, found["total"], found["tables"]) == (200, 300, {"shop.reviews": 300})
    (hit,) = found["hits"]
    assert hit["table"] == "shop.reviews"
    ((column, pieces),) = hit["texts"]
    assert (column, ["number", True] in pieces) == ("note", True)
    assert 0 <= found["lag"] < 600


def test_tables_are_counted_though_one_is_chosen(site):
    _, found = search(site, "battery", table="shop.products")
    assert found["total"] == len(HOSTILE)
    assert found["tables"] == {"shop.products": len(HOSTILE), "shop.reviews": 300}
    assert {hit["table"] for hit in found["hits"]} == {"shop.products"}
    _, found = search(site, "battery", table="shop.none")
    assert (found["total"], found["hits"]) == (0, [])


def test_no_query_finds_nothing_and_names_the_tables(site):
    _, found = search(site, " ")
    assert (found["hits"], [*found["tables"]]) == ([], ["shop.products", "shop.reviews"])


def test_only_the_tables_with_most_rows_are_named(tmp_path, patient):
    """And the one that is chosen; the others are counted."""
    texts = {f"shop.t{at:03}": ["lamp"] * (1 + at % 2) for at in range(2 * TABLES)}
    log_of(tmp_path / "binlog.000001", texts)
    index(tmp_path / "binlog.000001", tmp_path / "index")
    with running(PageServer(tmp_path / "index", "127.0.0.1:0")) as site:
        _, found = search(site, "lamp")
        assert found["tables"] == {name: 2 for name, rows in texts.items() if len(rows) == 2}
        assert (found["all"], found["left_out"]) == (3 * TABLES, TABLES)
        _, found = search(site, "lamp", table="shop.t000")
        assert (found["total"], found["all"]) == (1, 3 * TABLES)
        assert (found["tables"]["shop.t000"], found["left_out"]) == (1, TABLES - 1)
        _, found = search(site, "", table="shop.t000")
        assert (len(found["tables"]), found["left_out"]) == (TABLES, TABLES)


def test_hostile_text_is_json_that_no_browser_takes_for_a_page(site):
    _, headers, body = get(site, "/search?q=battery&table=shop.products")
    assert headers["Content-Type"] == "application/json"
    assert headers["X-Content-Type-Options"] == "nosniff"
    texts = {
        "".join(piece for piece, _ in pieces)
        for hit in json.loads(body)["hits"]
        for _, pieces in hit["texts"]
    }
    assert any("onerror" in each or "script" in each for each in texts)
    for text in texts:
        assert any(text in each for each in HOSTILE)


def test_each_answer_has_the_policy(site):
    """No inline script, no other host, no frame; nothing is kept."""
    for path in ("/", "/page.js", "/page.css", "/search?q=x", "/none"):
        found, headers, _ = get(site, path)
        assert found == (404 if path == "/none" else 200)
        assert headers["Content-Security-Policy"] == POLICY
        assert headers["Cache-Control"] == "no-store"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Access-Control-Allow-Origin"] is None
        assert headers["Server"] is None


def test_the_page_has_nothing_inline_and_nothing_of_another_host(site):
    for path in ("/", "/page.js", "/page.css"):
        _, _, body = get(site, path)
        text = body.decode()
        assert "http:" not in text
        assert "https:" not in text
        assert "innerHTML" not in text
        assert "style=" not in text
        assert "url(" not in text
    _, _, body = get(site, "/")
    assert body.count(b"<script") == body.count(b'<script src="/page.js"') == 1


BAD = {
    "(no end": "syntax error at the end",
    "a +": "syntax error at the end",
    "(" * 60 + "a" + ")" * 60: "brackets",
    '"aaa bbb ccc" @9 ' * 5: "distance",
    "x" * (LONGEST + 1): "1,000 characters",
    "a* " * (BEGINNINGS + 1): "10 words",
}
STRANGE = (
    "\x00",
    "\ufffd\ud7ff",
    "a" * LONGEST,
    "*",
    "+" * 50,
    "a*" * BEGINNINGS,
    "'; --",
    "\u202e",
)
LIMITS = ("0", "-1", str(HITS + 1), "x", "", "1e9", "\uff19", "9" * 500)


def test_a_bad_query_is_an_error_on_one_line_and_a_strange_one_no_fault(site):
    for query, says in BAD.items():
        status, found = search(site, query)
        assert (status, [*found]) == (400, ["error"]), query
        assert says in found["error"]
        assert "\n" not in found["error"]
    for query in STRANGE:
        assert search(site, query)[0] in {200, 400}, query
    for raw in ("q=%ff%fe", "q=%", "q", "q=a&q=b", "&&==&", "q=%00&table=%0d%0a"):
        assert get(site, f"/search?{raw}")[0] == 200, raw
    for limit in LIMITS:
        status, found = search(site, "battery", limit=limit)
        assert (status, [*found]) == (400, ["error"]), limit


def test_an_answer_is_limited_however_long_the_rows_are(site):
    _, _, body = get(site, f"/search?q=battery&limit={HITS}")
    assert len(json.loads(body)["hits"]) == HITS
    assert len(body) < 1000 * HITS


OTHER_PATHS = (
    *("/../server.py", "/%2e%2e/server.py", "/page.js/../../reader.py", "//etc/passwd"),
    *("/index.json", "/page.html", "/..%2f..%2findex.json", "/search/../index.json"),
)


def test_nothing_else_is_served_and_nothing_is_changed(site):
    for path in OTHER_PATHS:
        status, _, body = get(site, path)
        assert (status, body) == (404, b"Not Found"), path
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert get(site, "/search?q=x", method)[0] == 405, method


def test_another_name_for_this_machine_is_rejected(site):
    """A site whose name leads to 127.0.0.1 (DNS rebinding) reads nothing."""
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", ""):
        for path in ("/", "/search?q=battery"):
            status, _, body = get(site, path, Host=host)
            assert (status, b"battery" in body) == (400, False), host
    for host in ("localhost", "127.0.0.1:1", "[::1]:8080", "LOCALHOST:80"):
        assert get(site, "/", Host=host)[0] == 200, host


def test_another_site_cannot_have_it_search(site):
    for origin in ("cross-site", "same-site"):
        assert get(site, "/search?q=battery", Sec_Fetch_Site=origin)[0] == 403
    assert get(site, "/search?q=battery", Sec_Fetch_Site="same-origin")[0] == 200


def test_large_requests_are_rejected(site):
    assert get(site, "/search?q=" + "x" * 100_000)[0] == 400


def test_slow_connections_do_not_keep_others_out(site):
    """When there are too many, the oldest are closed, whether they have sent nothing or a part."""
    request = f"GET /page.css HTTP/1.1\r\nHost: {site.hostname}\r\n"
    with contextlib.ExitStack() as stack:
        socks = []
        for at in range(2 * CONNECTIONS):
            sock = socket.create_connection((site.hostname, site.port), timeout=DEADLINE)
            socks.append(stack.enter_context(contextlib.closing(sock)))
            sock.sendall((request if at % 2 else "").encode())
        assert search(site, "battery")[0] == 200
        for sock in socks[:CONNECTIONS]:
            with contextlib.suppress(ConnectionResetError):
                assert sock.recv(1) == b""
        socks[-1].sendall(b"\r\n")
        assert socks[-1].recv(15) == b"HTTP/1.1 200 OK"


def test_a_late_answer_is_given_up(folder, monkeypatch):
    """Those that wait are not begun: each would take its time from the next."""
    monkeypatch.setattr(module, "SECONDS", 0.5)
    server = PageServer(folder, "127.0.0.1:0")
    release, begun = threading.Event(), []

    class Slow:
        states = ()

        def refresh(self):
            begun.append(1)
            release.wait(DEADLINE)
            return self

    good, server._searches._index = server._searches._index, Slow()
    with contextlib.ExitStack() as stack:
        site = stack.enter_context(running(server))
        stack.callback(release.set)
        for _ in range(3):
            status, found = search(site, "battery")
            assert (status, "too long" in found["error"]) == (503, True)
        assert len(begun) == 1
        server._searches._index = good
        monkeypatch.setattr(module, "SECONDS", DEADLINE)
        release.set()
        wait_for(lambda: search(site, "battery")[0] == 200)


def test_other_machines_are_let_in_by_their_name_for_it_only(folder):
    for address in ("0.0.0.0:0", "*:0", "[::]:0", "192.0.2.1:0", "db1.example:0"):
        with pytest.raises(UsageError, match="without a login"):
            PageServer(folder, address)
    for name in [
        "*",
        "*.example",
        "",
        "a:80",
        "http://a/",
        "[::1]:80",
        "a b",
        "a\r\nb",
        "é.example",
    ]:
        with pytest.raises(UsageError, match="a host is a name"):
            PageServer(folder, "127.0.0.1:0", hosts=[name])


def test_it_is_served_by_ipv6(folder, patient):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        pytest.skip(f"this machine has no IPv6: {error}")
    with running(PageServer(folder, "[::1]:0")) as site:
        assert site.geturl().startswith("http://[::1]:")
        assert get(site, "/")[0] == 200
        assert search(site, "battery")[1]["total"]


SHOWN = (
    ("0.0.0.0:0", ["search.example", "other.example"], "search.example"),
    ("*:0", ["2001:DB8:0::1"], "[2001:db8::1]"),
    ("127.0.0.1:0", ["[2001:db8::1]"], "127.0.0.1"),
    ("localhost:0", [], "localhost"),
)


def test_the_address_that_is_shown_is_one_for_browsers(folder):
    for listen, hosts, shown in SHOWN:
        server = PageServer(folder, listen, hosts=hosts)
        port = server._socket.getsockname()[1]
        assert server.url == f"http://{shown}:{port}/"
        with running(server):
            site = urlsplit(f"http://127.0.0.1:{port}/")
            for name in (shown, "localhost", "127.0.0.1", "[::1]"):
                assert get(site, "/", Host=f"{name}:80")[0] == 200
            assert get(site, "/", Host="[2001:db8::2]")[0] == 400


def test_an_index_that_is_damaged_or_gone_is_said_and_one_that_is_back_is_searched(
    tmp_path, patient
):
    folder = tmp_path / "index"
    for name in ("old", "new"):
        log_of(tmp_path / f"{name}.000001", {f"shop.{name}": ["battery"]})
        index(tmp_path / f"{name}.000001", tmp_path / name)
    (tmp_path / "old").rename(folder)
    with running(PageServer(folder, "127.0.0.1:0")) as site:
        assert search(site, "battery")[1]["tables"] == {"shop.old": 1}
        shard = folder / "shards" / "0"
        for damaged in (folder / "index.json", shard / "meta.json"):
            whole = damaged.read_bytes()
            for found in (whole[:20], b""):
                damaged.write_bytes(found)
                status, answer = search(site, "battery")
                assert (status, "cannot be read" in answer["error"]) == (503, True)
            damaged.unlink()
            assert search(site, "battery")[0] == 503
            damaged.write_bytes(whole)
            assert search(site, "battery")[0] == 200
        folder.rename(tmp_path / "away")
        assert "there is no index" in search(site, "battery")[1]["error"]
        (tmp_path / "new").rename(folder)
        assert search(site, "battery")[1]["tables"] == {"shop.new": 1}


def test_a_name_that_was_given_is_served(folder):
    command = [sys.executable, "-m", "tailrace", "search", folder, "--serve", "0.0.0.0:0"]
    command += ["--host", "search.example"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        line = process.stderr.readline()
        assert "there is no login" in process.stderr.readline()
        site = urlsplit(f"http://127.0.0.1:{line.rstrip().rstrip('/').rpartition(':')[2]}/")
        assert get(site, "/", Host="search.example")[0] == 200
        assert get(site, "/", Host="evil.example")[0] == 400
        process.terminate()
        process.wait(DEADLINE)


WRONG = (
    ("", "give a query, or --serve"),
    ("battery --serve 127.0.0.1:0", "give a query, or --serve"),
    ("battery --host search.example", "--host goes with --serve"),
    ("--serve 127.0.0.1:0 --table shop.reviews", "not with --serve"),
    ("--serve 127.0.0.1:0 --limit 10", "not with --serve"),
    ("--serve 127.0.0.1:0 --json", "not with --serve"),
    ("battery --table reviews", "its tables: shop.products, shop.reviews"),
    ("--serve 0.0.0.0:0", "--host"),
    ("--serve 127.0.0.1", "HOST:PORT"),
    ("--serve 127.0.0.1:99999", "65535"),
)


def test_the_command_says_what_is_wrong(folder, run):
    for arguments, says in WRONG:
        found = run("search", folder, *arguments.split())
        assert found.status == 2, arguments
        assert says in " ".join(found.err.split()), arguments


def test_an_address_in_use_and_a_missing_index_are_errors(folder, site, tmp_path):
    with pytest.raises(UsageError, match="cannot listen at"):
        PageServer(folder, f"127.0.0.1:{site.port}")
    with pytest.raises(StorageError):
        PageServer(tmp_path / "none", "127.0.0.1:0")
