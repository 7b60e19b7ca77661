"""The random load: what it leaves behind."""

import random
import threading

from tools.campaign.columns import Types
from tools.load.actions import xa_left
from tools.load.client import Client, Plan


def test_nothing_stays_prepared_where_it_ends_before_it_has_connected_again(
    flavour_server, monkeypatch
):
    """It would hold up every reader of the log from there on."""
    server, ending = flavour_server, threading.Event()
    plan = Plan("prepared", 1, 0, 0, False, False, False)
    client = Client(server, 0, 1, plan, Types(server), ending)
    client.prepare()
    real = client.sql

    def sql(text):
        found = real(text)
        if text.startswith("XA PREPARE"):
            ending.set()
        return found

    monkeypatch.setattr(client, "sql", sql)
    for number in (2, 3):  # one is committed, one rolled back
        ending.clear()
        client.run(xa_left, random.Random(number), number)
        client.close()
        assert ending.is_set()
        assert server.query("XA RECOVER") == []
