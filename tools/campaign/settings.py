"""What a random schema is logged with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import random

    from tools.servers import Server

Names = Literal["ddl", "given", "log"]


@dataclass(frozen=True)
class Settings:
    """Variables to set, and where the columns' names are to come from.

    ``ddl``: the CREATE TABLE is in the log; ``given``: it is not, and is given as a schema;
    ``log``: it is not, and the log's metadata is FULL.
    """

    image: str
    names: Names
    globals_: dict[str, str] = field(default_factory=dict)
    session: dict[str, str] = field(default_factory=dict)
    partial_json: bool = False

    def __str__(self) -> str:
        every = {**self.globals_, **self.session}
        listed = " ".join(f"{name}={value}" for name, value in every.items())
        return f"names={self.names} {listed}"


def _flag(rng: random.Random) -> str:
    return rng.choice(("ON", "OFF"))


def choose(rng: random.Random, server: Server, *, odd: bool = False) -> Settings:
    """Random settings of the server's flavour; ``odd`` for MariaDB's old temporal format, too."""
    image = rng.choice(("FULL", "FULL", "MINIMAL", "NOBLOB"))
    names: Names = rng.choice(("ddl", "ddl", "given", "log"))
    globals_ = {"binlog_checksum": rng.choice(("CRC32", "CRC32", "NONE"))}
    session = {"binlog_row_image": image}
    partial_json = False
    if server.flavour == "mysql":
        metadata = rng.choice(("FULL", "MINIMAL"))
        session["binlog_transaction_compression"] = _flag(rng)
        session["binlog_rows_query_log_events"] = _flag(rng)
        partial_json = image != "MINIMAL" and rng.random() < 0.4
        session["binlog_row_value_options"] = "'PARTIAL_JSON'" if partial_json else "''"
    else:
        metadata = rng.choice(("FULL", "MINIMAL", "NO_LOG", "NO_LOG"))
        globals_["log_bin_compress"] = _flag(rng)
        globals_["log_bin_compress_min_len"] = "10"
        session["binlog_annotate_row_events"] = _flag(rng)
        if server.name != "mariadb-10.11":
            globals_["binlog_legacy_event_pos"] = _flag(rng)
            if rng.random() < 0.2:
                session["binlog_row_image"] = image = "FULL_NODUP"
        if odd and names != "log" and rng.random() < 0.3:  # a log alone does not tell the digits
            globals_["mysql56_temporal_format"] = "OFF"
    globals_["binlog_row_metadata"] = "FULL" if names == "log" else metadata
    return Settings(image, names, globals_, session, partial_json)
