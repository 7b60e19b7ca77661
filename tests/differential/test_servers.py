"""Random schemas on real servers: what Tailrace reads is what SELECT gives.

The long campaign is ``./run python -m tools.campaign differential``; its results are in
``docs/evidence/differential.md``.
"""

from __future__ import annotations

from tools.campaign import differential

SCHEMAS = 12
SEED = 20261121


def test_random_schemas(own_server):
    plan = differential.Plan(SCHEMAS, SEED, witness_every=3, second_every=4)
    report = differential.run(own_server, plan)
    assert not report.failures, "\n".join(report.failures)
    assert report.rows > 100
    assert report.ways["mysqlbinlog"] > 0
    assert report.ways["second server: sql and undo"] > 0
