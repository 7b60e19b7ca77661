"""What the test suite covers, and which faults it notices.

All of it runs in a clone that nobody else works in. Its tools go into the clone's own environment,
since tests start programs of that environment (`uv` is ``.uv/bin/uv`` where the machine has none):

    uv pip install --python .venv coverage==7.17.5 cosmic-ray==8.7.0
    export PATH=$PWD/.venv/bin:$PATH COVERAGE_PROCESS_START=$PWD/tools/suite/coverage.ini

Coverage by test function (`tools.suite.contexts`):

    python -m pytest -p tools.suite.contexts -m ''
    coverage combine --rcfile tools/suite/coverage.ini
    python -m tools.suite.packages .coverage [OLDER]

Mutants of the core, made by Cosmic Ray, against the tests that cover the changed line:

    python -m tools.suite.mutants .coverage --count 300 --seed 1 --into mutants.json [--only OLDER]

One broken line in each feature that the README names, against the quick suite:

    python -m tools.suite.features
"""
