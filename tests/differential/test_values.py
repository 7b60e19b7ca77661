"""Every character set with what it stores, and JSON with every type: what is read is SELECT's.

The long campaign is ``./run python -m tools.campaign differential --schemas 0 --values full``; its
results are in ``docs/evidence/differential.md``.
"""

from __future__ import annotations

from tools.campaign import characters, documents

SEED = 20261122


def test_character_sets(own_server) -> None:
    report = characters.run(own_server, SEED, most=60)
    assert not report.failures, "\n".join(report.failures)
    assert len(report.values) >= 39
    assert report.surrogates > 10


def test_documents(own_server) -> None:
    report = documents.run(own_server, SEED, rounds=2)
    assert not report.failures, "\n".join(report.failures)
    assert report.documents > 20
    assert (report.not_text > 0) is (own_server.flavour == "mysql")
