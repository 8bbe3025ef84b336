"""A port that is held for a server reaches that server, and no other program."""

import errno
import socket
import sys

import pytest

from gage_eval.base.ports import LOOPBACK, hold_port


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a server listen on a port that is held")
def test_a_held_port_is_for_a_server_that_reuses_addresses_and_for_nobody_else() -> None:
    held = hold_port()
    with socket.socket() as other, pytest.raises(OSError) as refused:
        other.bind((LOOPBACK, held.number))
    assert refused.value.errno == errno.EADDRINUSE

    with socket.create_server((LOOPBACK, held.number)), socket.create_connection((LOOPBACK, held.number)):
        held.release()
        with socket.create_connection((LOOPBACK, held.number)) as later:
            assert later.getpeername() == (LOOPBACK, held.number)


def test_a_released_port_is_free_again() -> None:
    held = hold_port()
    held.release()
    with socket.socket() as other:
        other.bind((LOOPBACK, held.number))
        assert other.getsockname()[1] == held.number
