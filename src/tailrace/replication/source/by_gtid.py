"""Where a dump by GTID begins: the file, and what is left out from there on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.gtid import GtidList, GtidSet
from tailrace.replication.source.left_out import MariadbSelection, MysqlSelection
from tailrace.replication.source.refusals import (
    MORE_GTIDS,
    TOO_OLD,
    fatal,
    not_logged,
    purged,
)
from tailrace.transports.gtids import already_read

if TYPE_CHECKING:
    from tailrace.gtid import GtidState
    from tailrace.replication.source.request import DumpRequest
    from tailrace.replication.source.series import ServedFile, ServedLogs


def mysql_start(
    logs: ServedLogs, gtids: GtidSet, server_uuid: str
) -> tuple[ServedFile, MysqlSelection]:
    """The newest file before which the replica has everything. Raises ServerError.

    ``server_uuid`` is that of the source: of its own transactions the replica has none that the
    logs do not have. As other transactions may reach a replica in other ways, they are not checked.
    """
    mine = GtidSet({tsid: runs for tsid, runs in gtids.sources.items() if tsid[0] == server_uuid})
    if mine and mine - logs.gtids:
        raise fatal(MORE_GTIDS)
    lost = logs.purged - gtids
    if isinstance(lost, GtidSet) and lost:
        raise purged(gtids, lost)
    return _newest(logs, gtids) or logs.files()[0], MysqlSelection(gtids)


def mariadb_start(
    logs: ServedLogs, request: DumpRequest, gtids: GtidList
) -> tuple[ServedFile, MariadbSelection]:
    """The newest file before which the replica has everything. Raises ServerError."""
    until = request.until_gtids
    selection = MariadbSelection(
        request, dict(gtids.position), None if until is None else dict(until.position)
    )
    file = _newest(logs, gtids)
    if file is None:
        raise fatal(TOO_OLD)
    _check_logged(logs.gtids, request, selection)
    selection.continued = bool(selection.left)
    head = logs.head(file)
    if head is not None and isinstance(head.before, GtidList):
        selection.state = head.before.copy()
        for domain, last in head.before.position.items():
            if selection.left.get(domain) == last:
                del selection.left[domain]
    return file, selection


def _check_logged(state: GtidState, request: DumpRequest, selection: MariadbSelection) -> None:
    """Check that the logs have the replica's GTID of each domain that they have."""
    if not isinstance(state, GtidList):
        return
    servers = {(gtid.domain_id, gtid.server_id): gtid for gtid in state}
    domains = state.position
    for domain, mine in list(selection.left.items()):
        if domain not in domains:
            del selection.left[domain]  # nothing of it was logged here yet
            continue
        known = servers.get((domain, mine.server_id))
        if known is None or known.seq_no < mine.seq_no:
            last = domains[domain]
            if request.ignore_duplicates and known is None and last.seq_no < mine.seq_no:
                continue
            raise not_logged(mine, later=last.seq_no >= mine.seq_no)


def _newest(logs: ServedLogs, gtids: GtidSet | GtidList) -> ServedFile | None:
    read = already_read(gtids)
    for file in reversed(logs.files()):
        head = logs.head(file)
        if head is not None and head.before is not None and read.covers(head.before):
            return file
    return None
