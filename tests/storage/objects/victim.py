"""A writer to be killed: python -m tests.storage.objects.victim URL FLAVOUR SEED; it prints each commit."""

from __future__ import annotations

import random
import sys

import tailrace
from tailrace.errors import StorageError
from tests.writing.made import UUID, orders, row


def main(url: str, flavour: str, seed: str) -> None:
    chance = random.Random(seed)
    given = {"server_uuid": UUID} if flavour == "mysql" else {}
    options = {"sync": "transaction", "max_size": 1 << 14, "cache_limit": 5000}
    try:
        log = tailrace.append(url, recovered=lambda _: None, **given, **options)
    except StorageError:
        log = tailrace.create(url, flavour=flavour, server_id=7, **given, **options)
    table = orders(flavour)
    number = len(log.gtids) if flavour == "mysql" else sum(each.seq_no for each in log.gtids)
    while True:
        number += 1
        with log.transaction() as trx:
            for _ in range(chance.randrange(1, 4)):
                trx.insert(table, [row(each) for each in range(chance.randrange(1, 100))])
        print(number, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
