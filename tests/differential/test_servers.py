"""On real servers, what Tailrace reads is what SELECT gives: of random schemas, of every character set
with what it stores, and of JSON with every type.

The long campaigns are ``./run python -m tools.campaign differential``, and the same with ``--schemas 0
--values full``; their results are in ``docs/evidence/differential.md``.
"""

import pytest

from tools.campaign import characters, differential, documents
from tools.servers import ONE_OF_EACH

SEED = 20261121


@pytest.fixture(scope="module", params=ONE_OF_EACH)
def own(request, fresh_server):
    return fresh_server(request.param)


def test_random_schemas(own):
    plan = differential.Plan(8, SEED, witness_every=3, second_every=4)
    report = differential.run(own, plan)
    assert not report.failures, "\n".join(report.failures)
    assert report.rows > 100
    assert report.ways["mysqlbinlog"] > 0
    assert report.ways["second server: sql and undo"] > 0


def test_character_sets(own):
    report = characters.run(own, SEED, most=60)
    assert not report.failures, "\n".join(report.failures)
    assert len(report.values) >= 39
    assert report.surrogates > 10


def test_documents(own):
    report = documents.run(own, SEED, rounds=2)
    assert not report.failures, "\n".join(report.failures)
    assert report.documents > 20
    assert (report.not_text > 0) is (own.flavour == "mysql")
