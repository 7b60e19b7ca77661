"""The shop's warehouse on MariaDB: database `warehouse`, three logs."""

from __future__ import annotations

import json
import uuid
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from tools.shop import Day, words

if TYPE_CHECKING:
    from tools.servers import Server

OPTIONS: dict[str, str | int | bool] = {"log_bin_compress_min_len": 64}

_SUPPLIERS = """
CREATE TABLE warehouse.suppliers (
  id SMALLINT UNSIGNED NOT NULL PRIMARY KEY,
  name VARCHAR(80) NOT NULL,
  city VARCHAR(60) CHARACTER SET latin2 NOT NULL,
  contract JSON NULL,
  gateway INET4 NULL,
  since YEAR NOT NULL
)"""
_STOCK = """
CREATE TABLE warehouse.stock (
  hall TINYINT UNSIGNED NOT NULL,
  sku CHAR(12) NOT NULL,
  quantity INT NOT NULL,
  shelf BIT(12) NOT NULL,
  value DECIMAL(14,4) NOT NULL,
  counted_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  PRIMARY KEY (hall, sku)
)"""
_MOVEMENTS = """
CREATE TABLE warehouse.movements (
  id UUID NOT NULL PRIMARY KEY,
  hall TINYINT UNSIGNED NOT NULL,
  sku CHAR(12) NOT NULL,
  delta INT NOT NULL,
  reason ENUM('delivery','sale','return','count','loss') NOT NULL,
  moved_at DATETIME(3) NOT NULL,
  terminal INET6 NULL,
  note TEXT NULL
)"""
_DELIVERIES = """
CREATE TABLE warehouse.deliveries (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  supplier_id SMALLINT UNSIGNED NOT NULL,
  pallets MEDIUMINT UNSIGNED NOT NULL,
  temperature FLOAT NULL,
  unloading TIME(2) NOT NULL,
  papers BLOB NULL,
  arrived_on DATE NOT NULL
)"""

_OPENED = datetime(2026, 3, 2, 5, 30, 0)  # noqa: DTZ001 - MariaDB's DATETIME has no zone


class _Warehouse(Day):
    """The warehouse's day: each method is one transaction or a row of them."""

    def __init__(self, server: Server) -> None:
        super().__init__(server, 20260303, _OPENED)
        self._skus = [f"SKU-{number:05d}" for number in range(1, 121)]

    def _tick(self) -> datetime:
        return self._later(300_000, "milliseconds")

    def suppliers(self, count: int) -> None:
        pick = self._random
        rows = [
            (
                number,
                f"{pick.choice(words.LAST_NAMES)} & {pick.choice(words.LAST_NAMES)}",
                pick.choice(words.CITIES),
                json.dumps({"days": pick.choice((14, 30, 60)), "goods": pick.choice(words.THINGS)})
                if pick.random() < 0.8
                else None,
                f"10.{pick.randrange(256)}.{pick.randrange(256)}.{pick.randrange(1, 255)}",
                pick.randrange(1975, 2026),
            )
            for number in range(1, count + 1)
        ]
        self._do(("INSERT INTO warehouse.suppliers VALUES (%s, %s, %s, %s, %s, %s)", rows))

    def first_count(self) -> None:
        pick = self._random
        for hall in (1, 2, 3):
            rows = [
                (
                    hall,
                    sku,
                    pick.randrange(500),
                    pick.randrange(4096),
                    Decimal(pick.randrange(10**8)) / 10000,
                    self._tick(),
                )
                for sku in self._skus
            ]
            self._do(("INSERT INTO warehouse.stock VALUES (%s, %s, %s, %s, %s, %s)", rows))

    def move(self, count: int) -> None:
        """Goods move: an insert and an update a transaction."""
        pick = self._random
        for _ in range(count):
            hall, sku = pick.choice((1, 2, 3)), pick.choice(self._skus)
            reason = pick.choice(("delivery", "sale", "sale", "sale", "return", "count", "loss"))
            delta = pick.randrange(1, 40) * (1 if reason in {"delivery", "return"} else -1)
            at = self._tick()
            terminal = f"2001:db8::{pick.randrange(1, 40):x}" if pick.random() < 0.8 else None
            note = pick.choice(words.REVIEWS) if pick.random() < 0.1 else None
            number = str(uuid.UUID(int=pick.getrandbits(128), version=4))
            row = (number, hall, sku, delta, reason, at, terminal, note)
            marks = ", ".join(["%s"] * len(row))
            self._do(
                (f"INSERT INTO warehouse.movements VALUES ({marks})", row),
                (
                    (
                        "UPDATE warehouse.stock SET quantity = quantity + %s, counted_at = %s "
                        "WHERE hall = %s AND sku = %s"
                    ),
                    (delta, at, hall, sku),
                ),
            )

    def deliver(self, count: int) -> None:
        """Lorries arrive, some in one transaction."""
        pick = self._random
        rows = [
            (
                pick.randrange(1, 41),
                pick.randrange(1, 30),
                round(pick.uniform(-25, 30), 1) if pick.random() < 0.7 else None,
                f"{pick.randrange(3):02d}:{pick.randrange(60):02d}:{pick.randrange(60):02d}.25",
                pick.randbytes(pick.randrange(4, 60)) if pick.random() < 0.8 else None,
                self._tick().date(),
            )
            for _ in range(count)
        ]
        sql = (
            "INSERT INTO warehouse.deliveries "
            "(supplier_id, pallets, temperature, unloading, papers, arrived_on) "
            "VALUES (%s, %s, %s, %s, %s, %s)"
        )
        self._do((sql, rows))


def run(server: Server) -> None:
    """Fill the warehouse's logs: one after the other, each under settings of its own."""
    house = _Warehouse(server)
    # 1: the server's default, nothing about columns but their types.
    house.ddl("CREATE DATABASE warehouse CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
    house.ddl(_SUPPLIERS, _STOCK, _MOVEMENTS, _DELIVERIES)
    house.suppliers(40)
    house.first_count()
    house.move(150)
    house.deliver(25)
    house.ddl("ALTER TABLE warehouse.stock ADD COLUMN locked BOOLEAN NOT NULL DEFAULT 0 AFTER sku")
    house.ddl("UPDATE warehouse.stock SET locked = 1 WHERE hall = 2 AND quantity < 20")
    server.rotate()

    # 2: names in the log.
    house.ddl("SET GLOBAL binlog_row_metadata = FULL")
    house.move(150)
    for _ in range(6):
        house.deliver(10)
    house.ddl("DELETE FROM warehouse.movements WHERE reason = 'loss'")
    server.rotate()

    # 3: compressed events; closed by the server's shutdown.
    house.ddl("SET GLOBAL log_bin_compress = ON")
    house.move(200)
    house.deliver(120)
    house.ddl("UPDATE warehouse.stock SET value = value * 1.02 WHERE locked = 0")
    house.ddl("UPDATE warehouse.suppliers SET contract = NULL WHERE since < 1980")
    house.ddl("DELETE FROM warehouse.deliveries WHERE temperature < -20")
