"""`create` and `append`: a log to write to."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack, cast

from tailrace.arguments import checked
from tailrace.constants import Flavour
from tailrace.errors import StorageError, UsageError
from tailrace.events import FormatDescription
from tailrace.events.description import checksum_of
from tailrace.gtid import STATES, GtidState
from tailrace.storage.binlog_file import BinlogFile
from tailrace.storage.encryption.folder import EncryptedFolder
from tailrace.storage.index import LogIndex
from tailrace.storage.keyring import open as open_keyring
from tailrace.storage.target import check_unused, first_name, last_name, logs_of, remove_drafts
from tailrace.warn import warn
from tailrace.writing.dialect import Dialect, MariadbDialect, MysqlDialect
from tailrace.writing.gtids import MariadbGtids, MysqlGtids
from tailrace.writing.log import LogWriter, now_us
from tailrace.writing.options import RowMetadata, Sync, WriterOptions
from tailrace.writing.recover import LogRecovered, RecoveredLog, Recovery, scan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tailrace.constants import ChecksumAlgorithm
    from tailrace.log_name import LogName
    from tailrace.observers import Observer
    from tailrace.storage.keyring import Keyring
    from tailrace.storage.store import WritableStore
    from tailrace.storage.streams.layer import Layers
    from tailrace.storage.target import Target
    from tailrace.values.encode import RowImage


class CreateOptions(TypedDict, total=False):
    """The fields of `WriterOptions`, by their names or values."""

    metadata: RowMetadata | str
    image: RowImage | str
    compress: bool
    max_rows_event_size: int
    max_size: int
    sync: Sync | str
    cache_limit: int


_VERSIONS = {
    Flavour.MYSQL: "9.7.0-tailrace",
    Flavour.MARIADB: "11.8.0-MariaDB-tailrace",
}
_LARGEST_ID: Final = (1 << 32) - 1
_OPTIONS = tuple(field.name for field in fields(WriterOptions))


@checked
def create(
    target: Target,
    *,
    flavour: Flavour | str,
    server_id: int,
    server_version: str | None = None,
    server_uuid: str | None = None,
    domain_id: int = 0,
    gtid_strict_mode: bool = True,
    checksum: ChecksumAlgorithm | str = "crc32",
    gtids: GtidState | str | None = None,
    encrypt: bool = False,
    keyring: Keyring | str | Path | None = None,
    key_id: str | None = None,
    encrypt_mode: str = "aes_cbc",
    layers: Layers | None = None,
    now: Callable[[], int] = now_us,
    observers: Sequence[Observer] = (),
    **options: Unpack[CreateOptions],
) -> LogWriter:
    """Create a log. It must not exist: `append` continues an existing one.

    ``target`` is the first file's path (``copy/binlog.000001``), a folder, such in a ``memory:`` or
    an object store's URL, or a store object (`tailrace.storage.WritableStore`), where the first
    file is ``binlog.000001``. In an object store a commit returns when it is in the store, if
    ``sync`` is ``transaction``, the default. ``flavour`` is ``mysql`` or ``mariadb``, ``server_id``
    a number of 32 bits. ``server_version`` is what readers take its server for. With
    ``server_uuid`` MySQL's transactions get GTIDs of it by themselves; MariaDB's get those of the
    ``domain_id``. ``gtids`` were in the log before its first file (what was purged, or lies
    elsewhere). Without ``gtid_strict_mode`` MariaDB's sequence numbers need not grow. ``checksum``
    is ``crc32`` or ``none``. ``now`` gives microseconds UTC. ``options`` are those of
    `tailrace.writing.WriterOptions`: ``metadata`` (``full``, ``minimal``, for MariaDB ``none``),
    ``image`` (``full``, ``minimal``, ``noblob``), ``compress``, ``max_rows_event_size`` and
    ``max_size`` in bytes, ``sync``, ``cache_limit``.

    With ``encrypt`` the log's files are encrypted as the flavour's servers do it, with a key of the
    ``keyring`` (a path, or as `tailrace.storage.keyring.open` takes it): MySQL's with the key
    ``key_id``, which need not be given where the keyring is one server's; MariaDB's with key 1, by
    ``encrypt_mode`` ``aes_cbc`` or ``aes_ctr``.

    ``layers`` are on its files, the lowest first, by name (``zstd``) or as objects
    (`tailrace.storage.streams.layer`). One that can only be written from begin to end, as zstd, is
    put on a file when it is complete, which `LogWriter.rotate` and ``close`` wait for; until then
    the file has its plain name. Encryption is above the layers.

    ``observers`` are told of each transaction (`LogWriter.add_observer`); a commit returns after
    them.

    Raises StorageError (KeyMissing), UsageError, GtidError.

    >>> import tailrace
    >>> orders = tailrace.Table("shop.orders", "id INT PRIMARY KEY, total DECIMAL(10,2)")
    >>> with tailrace.create("logs/binlog.000001", flavour="mysql", server_id=7) as log:
    ...     with log.transaction() as transaction:
    ...         transaction.insert(orders, [(1, "9.50"), (2, "3.20")])
    >>> [row["total"] for row in tailrace.rows("logs")]
    [Decimal('9.50'), Decimal('3.20')]
    """
    dialect = dialect_of(
        flavour,
        server_id=server_id,
        server_version=server_version,
        server_uuid=server_uuid,
        domain_id=domain_id,
        gtid_strict_mode=gtid_strict_mode,
        checksum=checksum,
        gtids=gtids,
    )
    made = writer_options(options, dialect.form.flavour)
    folder, name = first_name(target, layers)
    if encrypt != (keyring is not None):
        raise UsageError("encrypt=True and a keyring with the key go together")
    if keyring is not None:
        folder = EncryptedFolder(folder, open_keyring(keyring), key_id=key_id, mode=encrypt_mode)
    log = LogWriter(
        folder,
        LogIndex(folder, name.base),
        dialect,
        made,
        server_id=server_id,
        now=now,
        observers=observers,
    )
    log.begin_file(name, created=True)
    return log


@checked
def append(
    target: Target,
    *,
    server_id: int | None = None,
    server_uuid: str | None = None,
    domain_id: int = 0,
    gtid_strict_mode: bool = True,
    keyring: Keyring | str | Path | None = None,
    layers: Layers | None = None,
    now: Callable[[], int] = now_us,
    recovered: Callable[[Recovery], None] | None = None,
    observers: Sequence[Observer] = (),
    **options: Unpack[CreateOptions],
) -> LogWriter:
    """Continue a log, given by its last file, its folder, its index, or the store that it is in.

    Tailrace must have written the log, and no other process may have it open: a server's log is
    rejected. A last file that STOP or ROTATE closed is followed by a new one. Any other last file
    was left by a crash: its torn tail or unfinished transaction is cut off, and the file is
    continued. What was cut is in the log's ``recovery``; ``recovered`` is
    called with it, or a `LogRecovered` warning is given if there is no ``recovered``. Server
    version, checksums, GTIDs, clock and (unless given) ``server_id`` are those of the file;
    ``target`` and the other arguments are as in `create`. An
    encrypted log needs its ``keyring``, and its next files are encrypted as the last is, with the
    newest key. ``layers`` are as in `create`; those whose suffix its files have need not be given.
    Events of unknown types are kept as they are.

    Raises StorageError (KeyMissing), UsageError; LogError where the file is damaged elsewhere than
    at its end: nothing is cut then.

    >>> import tailrace
    >>> orders = tailrace.Table("shop.orders", "id INT PRIMARY KEY")
    >>> tailrace.create("logs/binlog.000001", flavour="mysql", server_id=7).close()
    >>> with tailrace.append("logs") as log, log.transaction() as transaction:
    ...     transaction.insert(orders, [(3,)])
    >>> log.position.file
    'binlog.000002'
    """
    folder, name = last_name(target, layers)
    known = None if keyring is None else open_keyring(keyring)
    folder = EncryptedFolder.like(folder, name, known)
    index = LogIndex(folder, name.base)

    def scanned(name: LogName) -> tuple[LogWriter, RecoveredLog]:
        last, recovery = _scan(folder, name)
        form = last.form
        if form is None:  # _scan gives no such file
            raise StorageError(f"{last.path}: it has no format description")
        identity = last.server_id if server_id is None else server_id
        _check_server(identity, server_uuid, form.flavour, domain_id)
        index.load()
        log = LogWriter(
            folder,
            index,
            _dialect(
                form,
                last.gtids,
                identity,
                server_uuid,
                domain_id,
                last.sequence,
                strict=gtid_strict_mode,
            ),
            writer_options(options, form.flavour),
            server_id=identity,
            now=now,
            recovery=recovery,
            table_id=last.table_id,
            xid=last.xid,
            observers=observers,
        )
        return log, last

    def continued(name: LogName) -> LogWriter:
        log, last = scanned(name)
        check_unused(target, folder, name.base)
        output = BinlogFile(folder, name)
        if last.name == name and not last.closed:
            output.open()
            if output.position != last.size:  # its writer committed until it was taken over
                try:
                    log, last = scanned(name)
                except BaseException:
                    output.close()
                    raise
        if last.name != name:  # a file without a whole head: its number is free
            folder.remove(name)
            if name in index:
                index.drop(name)
            log.begin_file(name, created=True)
        elif not last.closed:
            log.resume_file(output, name, last.end)
        else:
            output.close()
            log.begin_file(name.next, created=True)
        return log

    while True:
        try:
            log = continued(name)
            break
        except StorageError:
            last = logs_of(folder, name.base)[-1]
            if last.number <= name.number:
                raise
            name = last  # its writer, who is still alive, has created it meanwhile
    recovery = log.recovery
    index.recover()
    remove_drafts(folder, name.base)
    if recovery is not None:
        if recovered is not None:
            recovered(recovery)
        else:
            warn(str(recovery), LogRecovered)
    return log


def _scan(folder: WritableStore, name: LogName) -> tuple[RecoveredLog, Recovery | None]:
    """The last file that holds anything, and what is to be cut after it."""
    last = scan(folder, name)
    if not last.headless:
        if not last.reason:
            return last, None
        return last, Recovery(last.path, last.size, last.end, last.reason)
    before = [known for known in logs_of(folder, name.base) if known.number < name.number]
    if not before:
        raise StorageError(
            f"{last.path}: the file ends inside its head, so it cannot be continued; delete it"
            " and create the log again"
        )
    previous = scan(folder, before[-1])
    if previous.headless or previous.reason:
        raise StorageError(
            f"{last.path}: neither it nor {before[-1]} before it is whole; delete it, and append"
            f" to {before[-1]}"
        )
    return previous, Recovery(last.path, last.size, 0, last.reason or "it holds no whole head")


def dialect_of(
    flavour: Flavour | str,
    *,
    server_id: int,
    server_version: str | None = None,
    server_uuid: str | None = None,
    domain_id: int = 0,
    gtid_strict_mode: bool = True,
    checksum: ChecksumAlgorithm | str = "crc32",
    gtids: GtidState | str | None = None,
) -> Dialect:
    """What a new log of a server is written with; the arguments are those of `create`."""
    flavour = _flavour(flavour)
    _check_server(server_id, server_uuid, flavour, domain_id)
    form = FormatDescription.of(
        flavour,
        server_version=server_version or _VERSIONS[flavour],
        checksum_algorithm=checksum_of(checksum, "checksum"),
    )
    before = _gtids(gtids, flavour)
    return _dialect(form, before, server_id, server_uuid, domain_id, strict=gtid_strict_mode)


def _dialect(
    form: FormatDescription,
    written: GtidState,
    server_id: int,
    server_uuid: str | None,
    domain_id: int,
    sequence: int = 0,
    *,
    strict: bool,
) -> Dialect:
    if written.flavour is Flavour.MYSQL:
        return MysqlDialect(form, MysqlGtids(written, server_uuid), sequence)
    return MariadbDialect(form, MariadbGtids(written, server_id, domain_id, strict=strict))


def _gtids(given: GtidState | str | None, flavour: Flavour) -> GtidState:
    kind = STATES[flavour]
    if given is None:
        return kind()
    if isinstance(given, str):
        return kind.parse(given)
    if not isinstance(given, kind):
        raise UsageError(f"gtids: a log of {flavour} holds a {kind.__name__}")
    return given.copy()


def _flavour(given: Flavour | str) -> Flavour:
    try:
        return Flavour(given)
    except ValueError:
        raise UsageError(f"flavour: {given!r} is neither 'mysql' nor 'mariadb'") from None


def writer_options(given: CreateOptions, flavour: Flavour) -> WriterOptions:
    if unknown := sorted(set(given) - set(_OPTIONS)):
        raise UsageError(f"{unknown[0]}: no such option; there are {', '.join(_OPTIONS)}")
    options = WriterOptions(**cast("dict[str, Any]", given))
    options.check(flavour)
    return options


def _check_server(
    server_id: int, server_uuid: str | None, flavour: Flavour, domain_id: int = 0
) -> None:
    for name, given, least in (("server_id", server_id, 1), ("domain_id", domain_id, 0)):
        if not least <= given <= _LARGEST_ID:
            raise UsageError(f"{name}: {given!r} is not a number from {least} to {_LARGEST_ID}")
    if server_uuid is not None and flavour is Flavour.MARIADB:
        raise UsageError("server_uuid: MariaDB's GTIDs have none")
