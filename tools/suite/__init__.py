"""What the test suite covers, and which faults it notices.

Coverage by test function (`tools.suite.contexts`), in a clone that nobody else works in:

    export COVERAGE_PROCESS_START=$PWD/tools/suite/coverage.ini
    ./run --with coverage==7.17.5 pytest -p tools.suite.contexts -m ''
    ./run --with coverage==7.17.5 coverage combine --rcfile tools/suite/coverage.ini
    ./run --with coverage==7.17.5 python -m tools.suite.packages .coverage [OLDER]

Mutants of the core, made by Cosmic Ray, against the tests that cover the changed line:

    ./run --with coverage==7.17.5 --with cosmic-ray==8.7.0 python -m tools.suite.mutants \\
        .coverage --count 300 --seed 1 --into mutants.json [--only OLDER.json]

One broken line in each feature that the README names, against the quick suite:

    ./run python -m tools.suite.features
"""
