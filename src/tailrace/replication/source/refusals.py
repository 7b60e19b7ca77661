"""Why a dump is rejected or ends, in the words of mysqld and mariadbd: replicas act by the text.

Source: facts sheet 4.8; the tests produce each text with MySQL 9.7, MariaDB 10.11 and 11.8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace.constants import Flavour
from tailrace.errors import ServerError

if TYPE_CHECKING:
    from tailrace.gtid import GtidSet, MariadbGtid

FATAL: Final = 1236
"""ER_MASTER_FATAL_ERROR_READING_BINLOG."""
AGAIN: Final = 1053
"""ER_SERVER_SHUTDOWN."""
_STATE: Final = "HY000"

NO_SUCH_FILE: Final = "Could not find first log file name in binary log index file"
NO_NEXT_FILE: Final = "could not find next log"
NO_CHECKSUM: Final = (
    "{Replica} can not handle replication events with the checksum that {source} is configured to"
    " log"
)
BOGUS: Final = "bogus data in log event"
TOO_LARGE: Final = (
    "log event entry exceeded max_allowed_packet; Increase max_allowed_packet on {source}"
)
TORN: Final = "binlog truncated in the middle of event; consider out of disk space on {source}"
REPLACED: Final = "the source's logs were replaced by others, or cut off"
UNREADABLE: Final = "I/O error reading log event"
TOO_OLD: Final = (
    "Could not find GTID state requested by slave in any binlog files. Probably the slave state is"
    " too old and required binlog files have been purged."
)
MORE_GTIDS: Final = (
    "Replica has more GTIDs than the source has, using the source's SERVER_UUID. This may indicate"
    " that the the last binary log file was truncated or lost, e.g., after a power failure when"
    " sync_binlog != 1. The source may have rolled back transactions that were already replicated"
    " to the replica. Replicate any transactions that source has rolled back from replica to"
    " source, and/or commit empty transactions on source to account for transactions that have been"
    " committed on source but are not included in GTID_EXECUTED."
)
_LONGEST_SETS: Final = 200
"""Characters of the sets in the text: a server's has 512 bytes in all."""


def refused(code: int, state: str, text: str) -> ServerError:
    """The error of a server with this code, SQL state and text."""
    return ServerError(text, code=code, sqlstate=state, text=text)


def fatal(text: str, flavour: Flavour = Flavour.MYSQL, reason: str = "") -> ServerError:
    """Error 1236 with this text. ``{source}`` and ``{Replica}`` in it are the flavour's words.

    The ``reason`` is for the log of the source: the replica does not get it.
    """
    mysql = flavour is Flavour.MYSQL
    said = text.replace("{source}", "source" if mysql else "master").replace(
        "{Replica}", "Replica" if mysql else "Slave"
    )
    message = f"{said} ({reason})" if reason else said
    return ServerError(message, code=FATAL, sqlstate=_STATE, text=said)


def unavailable(reason: Exception) -> ServerError:
    """The logs cannot be read at the moment: the error of a server that is shutting down, after
    which replicas connect again by themselves.
    """
    text = "The source cannot read its logs at the moment: connect again"
    return ServerError(f"{text} ({reason})", code=AGAIN, sqlstate="08S01", text=text)


def at(text: str, first: tuple[str, int], last: tuple[str, int], byte: int) -> str:
    """A text with the places that servers add: where the dump began, the last event, the last byte
    read.
    """
    return (
        f"{text}; the first event '{first[0]}' at {first[1]}, the last event read from"
        f" '{last[0]}' at {last[1]}, the last byte read from '{last[0]}' at {byte}."
    )


def no_position(flavour: Flavour, file: str, position: int) -> ServerError:
    """The requested position is before the first event, or after the file's end."""
    if flavour is Flavour.MYSQL:
        which = "< 4" if position < 4 else "> file size"
        return fatal(f"Client requested source to start replication from position {which}")
    text = "Client requested master to start replication from impossible position"
    return fatal(at(text, (file, position), (file, 4), 4))


def purged(sent: GtidSet, missing: GtidSet) -> ServerError:
    """MySQL: transactions that the replica lacks are in no file any more."""
    return fatal(
        "Cannot replicate because the source purged required binary logs. Replicate the missing"
        " transactions from elsewhere, or provision a new replica from backup. Consider increasing"
        " the source's binary log expiration period. The GTID set sent by the replica is"
        f" '{sent.text()[:_LONGEST_SETS]}', and the missing transactions are"
        f" '{missing.text()[:_LONGEST_SETS]}'"
    )


def anonymous(file: str, position: int) -> ServerError:
    """MySQL: a transaction without a GTID, in a dump by GTID."""
    return fatal(
        "Cannot replicate anonymous transaction when AUTO_POSITION = 1, at file"
        f" {file}, position {position}."
    )


def not_logged(gtid: MariadbGtid, *, later: bool) -> ServerError:
    """MariaDB: the replica's GTID is not in the logs; ``later``: higher numbers are."""
    text = (
        f"Error: connecting slave requested to start from GTID {gtid}, which is not in the master's"
        " binlog"
    )
    if later:
        text += (
            ". Since the master's binlog contains GTIDs with higher sequence numbers, it probably"
            " means that the slave has diverged due to executing extra erroneous transactions"
        )
    return fatal(text)


def hole(gtid: MariadbGtid, *, earlier: bool) -> ServerError:
    """MariaDB in strict mode: the logs have a later GTID, but not the one asked for; ``earlier``:
    they have a lower number, too.
    """
    numbers = "both a prior and a subsequent" if earlier else "a subsequent"
    return fatal(
        f"The binlog on the master is missing the GTID {gtid} requested by the slave (even though"
        f" {numbers} sequence number does exist), and GTID strict mode is enabled"
    )
