"""A dump's packets made into the bytes of the log, in place. No socket, no allocation by event.

A source sends each event as a packet: length u24, sequence u8, ``00``, the event (facts sheet 4.1).
`unframe` moves the events of whole packets together, so that they stand as they do in the file, and
stops before the first packet that is not simply the log's next event.

The contract, which the kernel of `tailrace.columns` follows exactly:

``data`` is the buffer (bytes, writable). ``starts`` holds an i64 for each event that one call may
give: its length is how many. ``state`` is i64 words, read and left as they are then:

    READ    where in data the next packet's header begins
    END     where what was received ends
    BEGIN   where the chunk begins that is being made; starts count from here
    WRITE   where the next event goes: BEGIN <= WRITE <= READ
    OFFSET  what the next event's offset in the file is, by own count
    COUNT   events in the chunk; starts[COUNT] is the next to be set
    NEED    after MORE: bytes from READ on that are needed to continue

Each packet is looked at in this order, and the first that holds ends the call, the packet untouched
and READ at its header:

    1  fewer than 4 bytes from READ to END: NEED = 4; MORE
    2  its length is 0xFFFFFF, so it continues in the next (however much is there): CONTINUED
    3  it is not there whole: NEED = 4 + length; MORE
    4  its length is 0, or its first byte is not 00 (ERR, EOF): ANSWER
    5  the event has fewer than 19 bytes, or its header says another length: BAD_LENGTH
    6  its type is ROTATE, FORMAT_DESCRIPTION, HEARTBEAT, HEARTBEAT_V2 or START_ENCRYPTION, or it is
       flagged as artificial: CONTROL
    7  its log_pos is neither 0 (MariaDB 11.4 and later, inside groups) nor the low 32 bits of the
       end that it has by own count: HOLE
    8  COUNT is the length of starts: FULL

Otherwise: starts[COUNT] = WRITE - BEGIN, the event is moved to WRITE (the ranges may overlap), READ
moves past the packet, WRITE and OFFSET grow by the event, COUNT by 1; and so on. The sequence
number is not checked: semi-synchronous sources restart it.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from tailrace.constants import HEADER_SIZE, EventFlag, EventType

if TYPE_CHECKING:
    from collections.abc import MutableSequence

READ, END, BEGIN, WRITE, OFFSET, COUNT, NEED = range(7)
STATE_WORDS: Final = 7

MORE, FULL, ANSWER, CONTINUED, CONTROL, HOLE, BAD_LENGTH = range(7)
PLAIN: Final = -1
"""What `look` says of an event that is simply the log's next."""

CONTROL_TYPES: Final = frozenset(
    {
        EventType.ROTATE,
        EventType.FORMAT_DESCRIPTION,
        EventType.HEARTBEAT,
        EventType.HEARTBEAT_V2,
        EventType.START_ENCRYPTION,
    }
)
_CONTROL: Final = frozenset(map(int, CONTROL_TYPES))
_ARTIFICIAL: Final = int(EventFlag.ARTIFICIAL)
_LENGTH: Final = Struct("<I").unpack_from
_PACKET: Final = Struct("<4xB4xB4xIIH").unpack_from  # 00; type, length, log_pos, flags
_EVENT: Final = Struct("<4xB4xIIH").unpack_from
_FRAME: Final = 5  # length, sequence, 00
_LARGEST: Final = 0xFFFFFF
_LOW: Final = 0xFFFFFFFF


def unframe(data: memoryview, starts: MutableSequence[int], state: MutableSequence[int]) -> int:
    """Make a chunk of the whole packets that have come; returns why it stopped. See the module."""
    read, end, begin, write, offset, count, _ = state
    room = len(starts)
    while True:
        if end - read < 4:
            state[NEED] = 4
            reason = MORE
            break
        length = _LENGTH(data, read)[0] & _LARGEST
        if length == _LARGEST:
            reason = CONTINUED
            break
        behind = read + 4 + length
        if behind > end:
            state[NEED] = 4 + length
            reason = MORE
            break
        size = length - 1
        if size < HEADER_SIZE:
            reason = ANSWER if size < 0 or data[read + 4] else BAD_LENGTH
            break
        okay, kind, said, log_pos, flags = _PACKET(data, read)
        if okay:
            reason = ANSWER
            break
        if said != size:
            reason = BAD_LENGTH
            break
        if kind in _CONTROL or flags & _ARTIFICIAL:
            reason = CONTROL
            break
        if log_pos and log_pos != (offset + size) & _LOW:
            reason = HOLE
            break
        if count >= room:
            reason = FULL
            break
        starts[count] = write - begin
        data[write : write + size] = data[read + _FRAME : behind]
        read = behind
        write += size
        offset += size
        count += 1
    state[READ] = read
    state[WRITE] = write
    state[OFFSET] = offset
    state[COUNT] = count
    return reason


def look(event: memoryview, offset: int) -> int:
    """Classify one event that begins at ``offset`` by rules 5 to 7; PLAIN if none holds."""
    size = len(event)
    if size < HEADER_SIZE:
        return BAD_LENGTH
    kind, said, log_pos, flags = _EVENT(event)
    if said != size:
        return BAD_LENGTH
    if kind in _CONTROL or flags & _ARTIFICIAL:
        return CONTROL
    return HOLE if log_pos and log_pos != (offset + size) & _LOW else PLAIN
