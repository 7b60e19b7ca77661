"""Statements on their way to a server: the next are sent before the answers to the former are read.

A packet of several statements is executed up to the first that fails; the server then executes
the next packet, which must not be executed either. So each packet ends with a statement that notes
its number in a user variable, and one that is sent while another is on its way begins with a
statement that fails unless the variable has the number of the packet before it.
"""

from __future__ import annotations

import re
from collections import deque
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tailrace.applier.server.steps import FAIL, FLUSH, Step, too_large
from tailrace.applier.target import progress_missing
from tailrace.errors import ConnectionLost, ServerError, TailraceError
from tailrace.live.driver import err, numbered_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tailrace.live.connect import ServerConnection

_PACKET: Final = 256 << 10
"""Bytes of statements that are sent together, if they are not one statement."""
_ON_THEIR_WAY: Final = 2
"""Packets that are sent and not answered."""
_FAILED: Final = 1242
"""The error of `FAIL`."""
NOT_FOUND: Final = 1032
"""The error of a row that is not there."""
_IN_QUOTES: Final = re.compile(r".*value of '(.*)'", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Sent:
    """A step of the transaction of that number."""

    number: int
    step: Step


class StepError(Exception):
    """A statement failed, of the transaction of that number. ``unnoted``: it did not find the row
    of the channel.
    """

    unnoted = False

    def __init__(self, number: int, code: int, error: TailraceError) -> None:
        super().__init__(str(error))
        self.number = number
        self.code = code
        self.error = error


class Pipeline:
    """Sends steps over a connection. ``most`` is the largest packet that the server takes."""

    def __init__(self, connection: ServerConnection, most: int) -> None:
        self.connection = connection
        self.name = connection.name
        self.most = most
        self._packets = 0
        self._on_their_way: deque[list[Sent]] = deque()

    def send_all(self, steps: Iterable[Sent]) -> None:
        """Send steps in their order, and wait for the last. Raises StepError for the first that
        fails: none after it is executed.
        """
        held: list[Sent] = []
        size = 0
        for each in steps:
            step = each.step
            if step is FLUSH:
                self.flush(held)
                held, size = [], 0
                continue
            length = len(step.text) + 2
            if step.begins or step.ends:
                if step.begins:
                    self.flush(held)
                    held, size = [], 0
            elif held and size + length > _PACKET:
                self.send(held)
                held, size = [], 0
            if held and size + length > self.most:
                self.send(held)
                held, size = [], 0
            if length > self.most:
                self.flush(held)
                raise StepError(each.number, 0, too_large(step.text, self.most, self.name))
            held.append(each)
            size += length
            if step.ends:
                self.flush(held)
                held, size = [], 0
        self.flush(held)

    def flush(self, held: list[Sent]) -> None:
        """Send these steps, the last of which may be one after which nothing can follow in its
        packet, and wait until all is executed.
        """
        if held:
            while self._on_their_way and held[-1].step.ends:
                self._read()
            with self._alone(held[-1]):
                self.send(held)
                while self._on_their_way:
                    self._read()
        while self._on_their_way:
            self._read()

    @contextmanager
    def _alone(self, sent: Sent) -> Iterator[None]:
        """Have the server reject what follows the first statement of a step that is to be one."""
        if not sent.step.one:
            yield
            return
        try:
            self.connection.take_several(several=False)
            try:
                yield
            finally:
                if self.connection.open:
                    self.connection.take_several(several=True)
        except err.MySQLError as error:
            raise self.failed(sent, error) from error
        except ConnectionLost as error:
            raise StepError(sent.number, 0, error) from error

    def send(self, sent: list[Sent]) -> None:
        """Send steps as one packet; waits for packets that were sent before, but not for this."""
        texts = [each.step.text for each in sent]
        if self._on_their_way:
            number, after = self._packets, self._packets + 1
            guard = b"SET @tailrace_packet = IF(@tailrace_packet = %d, 0, %b)" % (number, FAIL)
            texts.insert(0, guard)
            sent = [Sent(sent[0].number, Step(guard)), *sent]
            self._packets = after
        else:
            self._packets += 1
        if not sent[-1].step.ends:
            texts.append(b"SET @tailrace_packet = %d" % self._packets)
            sent = [*sent, Sent(sent[-1].number, Step(texts[-1]))]
        try:
            self.connection.send_several(b";\n".join(texts))
        except ConnectionLost as error:
            raise StepError(self._first(sent), 0, error) from error
        self._on_their_way.append(sent)
        while len(self._on_their_way) >= _ON_THEIR_WAY:
            self._read()

    def _first(self, sent: list[Sent]) -> int:
        """The first transaction of which it is unknown what became of it."""
        first = self._on_their_way[0] if self._on_their_way else sent
        self._on_their_way.clear()
        return first[0].number

    def _read(self) -> None:
        """Read the answers to the packet that was sent first."""
        sent = self._on_their_way.popleft()
        connection = self.connection
        at = done = 0
        try:
            while at < len(sent):
                each = sent[at].step
                if each.blocks is None and not each.error_code:
                    done += connection.read_done(each.count - done)
                if done < each.count:
                    connection.read_answer(each.blocks)
                    done += 1
                    if each.error_code:
                        raise self._no_error(sent[at])
                if done == each.count:
                    at, done = at + 1, 0
        except err.MySQLError as error:
            failed = self.failed(sent[at], error)
            if failed.code and failed.code == sent[at].step.error_code:
                return  # only the last of a packet expects one
            self._drop()
            raise failed from error
        except StepError:
            self._drop()
            raise
        except ConnectionLost as error:
            self._on_their_way.clear()
            raise StepError(sent[at].number, 0, error) from error

    def _drop(self) -> None:
        """Read that the packets on their way are not executed."""
        while self._on_their_way:
            self._on_their_way.popleft()
            with suppress(err.MySQLError, TailraceError):
                self.connection.read_answer()

    def do(self, steps: Iterable[Step]) -> None:
        """Send steps of one transaction, and wait for the last. Raises StepError."""
        self.send_all(Sent(0, each) for each in steps)

    def one(self, step: Step) -> int:
        """Execute a statement by itself; gives the number of rows that it concerned."""
        try:
            with self._alone(Sent(0, step)):
                self.connection.send_several(step.text)
                return self.connection.read_answer(step.blocks)
        except err.MySQLError as error:
            raise self.failed(Sent(0, step), error) from error

    def failed(self, sent: Sent, error: err.MySQLError) -> StepError:
        """An error of PyMySQL, of this step."""
        code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        own = numbered_error(error, self.name) or ConnectionLost(f"{self.name}: {error}")
        step = sent.step
        if step.place and code == _FAILED:
            failed = StepError(sent.number, 0, progress_missing(self.name, step.place))
            failed.unnoted = True
            return failed
        if step.row and code == _FAILED:
            code = NOT_FOUND
            own = ServerError(f"{self.name}: the row to {step.row} is not there", code=code)
        elif step.guards and (reason := _IN_QUOTES.match(str(error.args[-1]))):
            own = ServerError(f"{self.name}: {reason[1]}", code=code)
        return StepError(sent.number, code, own)

    def _no_error(self, each: Sent) -> StepError:
        text = each.step.text[:200].decode(errors="replace")
        return StepError(
            each.number,
            0,
            ServerError(
                f"{self.name}: a statement that failed with error {each.step.error_code} on its"
                f" source does not fail here: {text!r}",
                code=0,
            ),
        )
