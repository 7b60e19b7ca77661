"""The applier (MWL#120): carries out the changes of a log in another database.

`apply` reads a source and applies it; `Applier` is the consumer that does it, for any stream of
generators.
"""

from tailrace.applier.applier import Applied, Applier, apply, target_of
from tailrace.applier.target import Conflicts, Progress, Target
from tailrace.applier.transaction import Transaction

__all__ = [
    "Applied",
    "Applier",
    "Conflicts",
    "Progress",
    "Target",
    "Transaction",
    "apply",
    "target_of",
]
