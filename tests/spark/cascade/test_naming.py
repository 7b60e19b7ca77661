"""Which tables the mirror names for foreign keys whose changes are not in the log."""

from types import SimpleNamespace

from tailrace.schema.catalogue import Catalogue
from tailrace.schema.foreign_keys import ForeignKey
from tailrace.spark.input.server_facts import ServerFacts
from tailrace.spark.manifest.lake_options import LakeOptions
from tailrace.spark.state.cascade.naming import Cascades
from tailrace.table_name import TableName

KEY = ForeignKey(("a",), "shop", "orders", ("id",), "CASCADE", "RESTRICT", "fk")


class Keys(list):
    """Keys that count how often they are gone through."""

    looks = 0

    def __iter__(self):
        self.looks += 1
        return super().__iter__()


def test_the_keys_of_a_server_are_added_once():
    """They may be very many, and a server's facts stay as they are."""
    keys, notices = Keys([KEY]), []
    facts = ServerFacts(None, {TableName("shop", "lines"): keys})
    answers = iter([None, facts, facts, facts])
    servers = SimpleNamespace(facts=lambda _name: next(answers))
    planner = SimpleNamespace(catalogue=Catalogue(), server_version="8.0.36")
    cascades = Cascades(servers, LakeOptions(), notices.append)
    for _ in range(4):
        cascades.look([SimpleNamespace(name="mysql", planner=planner)])
    assert list(cascades.known) == ["shop.lines"]
    assert len(notices) == 1
    assert keys.looks == 1
