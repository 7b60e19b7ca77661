"""What `verify` says of all tables together, and its status."""

from importlib import import_module

from tailrace.spark.verify_report import TableVerdict, VerifyReport

KINDS = {
    "equal": TableVerdict("d.equal", 1, 1),
    "incomplete": TableVerdict("d.part", reason="rows", compared=False, incomplete=True),
    "aside": TableVerdict("d.aside", reason="it is set aside", compared=False),
    "busy": TableVerdict("d.busy", 1, 1, changed=1, undecided=1),
    "differs": TableVerdict("d.differs", 1, 1, changed=1),
    "absent": TableVerdict("d.absent", reason="it is not in the lake"),
}


HEADLINES = (
    ("", 0, "no table with rows to compare"),
    ("equal", 0, "equal to the server"),
    ("incomplete", 1, "has incomplete tables"),
    ("equal incomplete", 1, "has incomplete tables; the others are equal to the server"),
    ("aside", 2, "could not be found equal to the server"),
    ("equal busy", 2, "could not be found equal to the server"),
    (
        "equal incomplete aside",
        2,
        "could not be found equal to the server, and has incomplete tables",
    ),
    (
        "incomplete busy",
        2,
        "could not be found equal to the server, and has incomplete tables",
    ),
    ("equal differs", 1, "differs from the server"),
    ("absent", 1, "differs from the server"),
    ("differs incomplete", 1, "differs from the server, and has incomplete tables"),
    (
        "equal differs aside",
        2,
        "differs from the server; for other tables this could not be determined",
    ),
    (
        "differs incomplete busy",
        2,
        (
            "differs from the server, and has incomplete tables; for other tables this could"
            " not be determined"
        ),
    ),
)


def test_the_headline_is_true_of_all_tables(run, monkeypatch):
    for kinds, status, title in HEADLINES:
        found = tuple(KINDS[kind] for kind in kinds.split())
        report = VerifyReport(found, "binlog.000001:4", "binlog.000001:4", seconds={"all": 1.0})
        monkeypatch.setattr(
            import_module("tailrace.spark.verify"), "verify", lambda *_, r=report, **__: r
        )
        ran = run("verify", "mysql://u@h", "--into", "lake")
        assert ran.status == status, kinds
        assert f"lake: {title}, 1.0 s\n" in ran.out
