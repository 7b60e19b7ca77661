"""The shop on MySQL: database `shop`, four logs."""

from __future__ import annotations

import hashlib
import json
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tools.shop import Day, words

if TYPE_CHECKING:
    from tools.servers import Server

OPTIONS: dict[str, str | int | bool] = {
    "gtid_mode": "ON",
    "enforce_gtid_consistency": "ON",
    "binlog_row_metadata": "FULL",
}

_CUSTOMERS = """
CREATE TABLE shop.customers (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  email VARCHAR(120) NOT NULL,
  name VARCHAR(80) NOT NULL,
  country CHAR(2) CHARACTER SET ascii NOT NULL,
  newsletter BOOLEAN NOT NULL DEFAULT FALSE,
  credit DECIMAL(12,2) NOT NULL DEFAULT 0.00,
  born DATE NULL,
  joined_at TIMESTAMP NOT NULL,
  UNIQUE KEY (email)
)"""
_PRODUCTS = """
CREATE TABLE shop.products (
  id INT UNSIGNED NOT NULL PRIMARY KEY,
  sku CHAR(12) NOT NULL UNIQUE,
  title VARCHAR(120) NOT NULL,
  price DECIMAL(10,2) NOT NULL,
  attributes JSON NULL,
  tags SET('new','sale','eco','gift','bulky') NOT NULL DEFAULT '',
  image_hash BINARY(16) NULL,
  added_on DATE NOT NULL
)"""
_ORDERS = """
CREATE TABLE shop.orders (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  customer_id INT UNSIGNED NOT NULL,
  status ENUM('new','paid','shipped','delivered','cancelled') NOT NULL DEFAULT 'new',
  total DECIMAL(12,2) NOT NULL,
  placed_at DATETIME(6) NOT NULL,
  updated_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
  note VARCHAR(200) NULL,
  CONSTRAINT orders_customer FOREIGN KEY (customer_id) REFERENCES customers (id)
)"""
_ORDER_ITEMS = """
CREATE TABLE shop.order_items (
  order_id BIGINT UNSIGNED NOT NULL,
  line SMALLINT UNSIGNED NOT NULL,
  product_id INT UNSIGNED NOT NULL,
  quantity SMALLINT UNSIGNED NOT NULL,
  unit_price DECIMAL(10,2) NOT NULL,
  PRIMARY KEY (order_id, line)
)"""
_PAYMENTS = """
CREATE TABLE shop.payments (
  order_id BIGINT UNSIGNED NOT NULL PRIMARY KEY,
  method ENUM('card','transfer','voucher') NOT NULL,
  amount DECIMAL(12,2) NOT NULL,
  fee DOUBLE NOT NULL,
  paid_at DATETIME(3) NOT NULL,
  receipt VARBINARY(32) NULL
)"""
_REVIEWS = """
CREATE TABLE shop.reviews (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  product_id INT UNSIGNED NOT NULL,
  customer_id INT UNSIGNED NOT NULL,
  stars TINYINT UNSIGNED NOT NULL,
  body TEXT NOT NULL,
  details JSON NULL,
  written_at DATETIME NOT NULL
)"""

_OPENED = datetime(2026, 3, 2, 8, 0, 0)  # noqa: DTZ001 - MySQL's DATETIME has no zone


class _Shop(Day):
    """The shop's day: each method is one thing that happens, in one transaction."""

    def __init__(self, server: Server) -> None:
        super().__init__(server, 20260302, _OPENED)
        self._prices: dict[int, Decimal] = {}
        self._open_orders: list[tuple[int, Decimal]] = []
        self._customers = 0
        self._orders = 0
        self._weights = False

    def _tick(self) -> datetime:
        return self._later(900_000_000, "microseconds")

    def join(self, count: int) -> None:
        """New customers, in one transaction."""
        pick, rows = self._random, []
        for _ in range(count):
            self._customers += 1
            name = f"{pick.choice(words.FIRST_NAMES)} {pick.choice(words.LAST_NAMES)}"
            born = date(1950, 1, 1) + timedelta(days=pick.randrange(20000))
            rows.append(
                (
                    self._customers,
                    f"customer{self._customers}@example.com",
                    name,
                    pick.choice(words.COUNTRIES),
                    pick.random() < 0.4,
                    Decimal(pick.randrange(-5000, 50000)) / 100,
                    born if pick.random() < 0.8 else None,
                    self._tick().replace(microsecond=0),
                )
            )
        sql = "INSERT INTO shop.customers VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"
        self._do((sql, rows))

    def list_products(self, first: int, count: int) -> None:
        """New products, in one transaction."""
        rows: list[tuple[Any, ...]] = []
        for number in range(first, first + count):
            pick = self._random
            title = f"{pick.choice(words.ADJECTIVES)} {pick.choice(words.THINGS)}"
            self._prices[number] = price = Decimal(pick.randrange(199, 60000)) / 100
            tags = [t for t in ("new", "sale", "eco", "gift", "bulky") if pick.random() < 0.3]
            rows.append(
                (
                    number,
                    f"SKU-{number:05d}",
                    title,
                    price,
                    self._attributes(),
                    ",".join(tags),
                    hashlib.md5(title.encode(), usedforsecurity=False).digest(),
                    self._now.date() - timedelta(days=pick.randrange(700)),
                    *([pick.randrange(40, 90000)] if self._weights else []),
                )
            )
        marks = ", ".join(["%s"] * len(rows[0]))
        self._do((f"INSERT INTO shop.products VALUES ({marks})", rows))

    def _attributes(self) -> str | None:
        pick = self._random
        if pick.random() < 0.1:
            return None
        size = [pick.randrange(5, 200) for _ in range(3)]
        attributes: dict[str, Any] = {
            "colour": pick.choice(words.COLOURS),
            "material": pick.choice(words.MATERIALS),
            "size": {"cm": size, "kg": round(pick.random() * 20, 2)},
            "in_stock": pick.random() < 0.9,
        }
        if pick.random() < 0.3:
            attributes["labels"] = {"fr": "Fait à la main", "uk": "Ручна робота", "x": None}
        if pick.random() < 0.2:
            attributes["ean"] = 4006381000000 + pick.randrange(10**6)
        return json.dumps(attributes, ensure_ascii=False)

    def order(self) -> None:
        """A customer orders some things: two tables in one transaction."""
        pick = self._random
        self._orders += 1
        chosen = pick.sample(sorted(self._prices), pick.choice((1, 1, 2, 2, 3, 4, 6)))
        lines = [
            (self._orders, line, product, pick.choice((1, 1, 1, 2, 3)), self._prices[product])
            for line, product in enumerate(chosen, 1)
        ]
        total = sum((quantity * price for *_, quantity, price in lines), Decimal(0))
        at = self._tick()
        note = pick.choice(words.NOTES) if pick.random() < 0.1 else None
        order = (self._orders, pick.randrange(1, self._customers + 1), total, at, at, note)
        self._do(
            (
                (
                    "INSERT INTO shop.orders (id, customer_id, total, placed_at, updated_at, note) "
                    "VALUES (%s, %s, %s, %s, %s, %s)"
                ),
                order,
            ),
            ("INSERT INTO shop.order_items VALUES (%s, %s, %s, %s, %s)", lines),
        )
        self._open_orders.append((self._orders, total))

    def pay(self) -> None:
        """An order is paid: an insert and an update."""
        pick = self._random
        number, total = self._open_orders.pop(pick.randrange(len(self._open_orders)))
        at = self._tick()
        receipt = hashlib.sha256(str(number).encode()).digest()[: pick.choice((8, 20, 32))]
        method = pick.choice(("card", "card", "transfer", "voucher"))
        payment = (number, method, total, round(float(total) * 0.0137, 5), at, receipt)
        self._do(
            ("INSERT INTO shop.payments VALUES (%s, %s, %s, %s, %s, %s)", payment),
            ("UPDATE shop.orders SET status = 'paid', updated_at = %s WHERE id = %s", (at, number)),
        )

    def change_status(self, old: str, new: str, most: int) -> None:
        """Many orders move on at once: one multi-row update."""
        at = self._tick()
        sql = (
            "UPDATE shop.orders SET status = %s, updated_at = %s WHERE status = %s "
            "ORDER BY id LIMIT %s"
        )
        self._do((sql, (new, at, old, most)))

    def review(self, count: int) -> None:
        """Some reviews, each in a transaction of its own."""
        pick = self._random
        for _ in range(count):
            details = json.dumps({"helpful": pick.randrange(40), "verified": pick.random() < 0.5})
            row = (
                pick.choice(sorted(self._prices)),
                pick.randrange(1, self._customers + 1),
                pick.randrange(1, 6),
                " ".join(pick.sample(words.REVIEWS, pick.choice((1, 1, 1, 2, 3)))),
                details if pick.random() < 0.7 else None,
                self._tick().replace(microsecond=0),
            )
            sql = (
                "INSERT INTO shop.reviews "
                "(product_id, customer_id, stars, body, details, written_at) "
                "VALUES (%s, %s, %s, %s, %s, %s)"
            )
            self._do((sql, row))

    def reprice(self, product: int) -> None:
        """A product's price and a part of its attributes change."""
        self._prices[product] = (self._prices[product] * Decimal("0.95")).quantize(Decimal("0.01"))
        sql = (
            "UPDATE shop.products SET price = %s, tags = 'sale', "
            "attributes = JSON_SET(attributes, '$.in_stock', FALSE, '$.was', price) WHERE id = %s"
        )
        self._do((sql, (self._prices[product], product)))

    def cancel(self, number: int) -> None:
        """An order is cancelled: its lines are deleted."""
        self._open_orders = [order for order in self._open_orders if order[0] != number]
        self._do(
            ("UPDATE shop.orders SET status = 'cancelled' WHERE id = %s", (number,)),
            ("DELETE FROM shop.order_items WHERE order_id = %s", (number,)),
        )

    def day(self, orders: int) -> None:
        """Orders come in and some are paid."""
        for _ in range(orders):
            self.order()
            if len(self._open_orders) > 10 and self._random.random() < 0.6:
                self.pay()

    def weigh(self) -> None:
        """The column that is added later gets values, in one statement over the table."""
        self._weights = True
        self._do(("UPDATE shop.products SET weight_grams = 100 + id * 37 WHERE MOD(id, 3) > 0", ()))


def run(server: Server) -> None:
    """Fill the shop's logs: one after the other, each under settings of its own."""
    shop = _Shop(server)
    # 1: names in the log.
    shop.ddl("CREATE DATABASE shop CHARACTER SET utf8mb4")
    shop.ddl(_CUSTOMERS, _PRODUCTS, _ORDERS, _ORDER_ITEMS, _PAYMENTS)
    shop.join(200)
    shop.list_products(1, 120)
    shop.day(150)
    shop.change_status("paid", "shipped", 40)
    server.rotate()

    # 2: no names in the log; they come from CREATE and ALTER TABLE.
    shop.ddl("SET GLOBAL binlog_row_metadata = MINIMAL", _REVIEWS)
    shop.review(150)
    shop.ddl(
        "ALTER TABLE shop.products ADD COLUMN weight_grams MEDIUMINT UNSIGNED NULL, "
        "MODIFY title VARCHAR(160) NOT NULL"
    )
    shop.weigh()
    shop.list_products(121, 30)
    for product in range(5, 60, 5):
        shop.reprice(product)
    shop.day(120)
    shop.change_status("shipped", "delivered", 30)
    shop.change_status("paid", "shipped", 60)
    server.rotate()

    # 3: compressed transactions.
    shop.ddl("SET GLOBAL binlog_row_metadata = FULL", "SET binlog_transaction_compression = ON")
    for _ in range(8):
        shop.join(60)
    shop.day(250)
    shop.review(80)
    for number in range(7, 400, 23):
        shop.cancel(number)
    shop.change_status("shipped", "delivered", 500)
    server.rotate()

    # 4: the last day, closed by the server's shutdown.
    shop.ddl("SET binlog_transaction_compression = OFF")
    shop.day(40)
    shop.ddl("DELETE FROM shop.reviews WHERE stars = 1 ORDER BY id LIMIT 25")
    shop.ddl("UPDATE shop.customers SET newsletter = FALSE, credit = credit + 5 WHERE country='UA'")
    shop.ddl("UPDATE shop.order_items SET line = line + 100 WHERE order_id IN (11, 12, 13)")
