"""WL#4398, `Binlog_relay_IO_param`: what an observer of a receiver is shown."""

from __future__ import annotations

from tailrace.observers import RelayIoObserver
from tailrace.replication.receiver import receive
from tests.live.feeding import source_of


class Asks(RelayIoObserver):
    def before_request_transmit(self, io, flags):
        self.shown = (io.host, io.user, io.port, io.server_id)
        self.answer = list(io.connection.query("SELECT CONNECTION_ID()"))
        self.flags = flags
        return flags

    def after_queue_event(self, io, event, flags):
        self.place = (io.log_name, io.log_pos)


def test_host_user_port_server_id_and_place_are_shown(server, tmp_path):
    observer = Asks()
    server.rotate()
    last = server.binlogs()[-1]
    progress = receive(
        source_of(server, server_id=4398), tmp_path / "copy", follow=False, observers=[observer]
    )
    assert observer.shown == ("127.0.0.1", "root", server.port, 4398)
    assert observer.answer[0][0] > 0
    assert observer.place == (progress.position.file, progress.position.offset)
    assert observer.place[0] >= last.name
