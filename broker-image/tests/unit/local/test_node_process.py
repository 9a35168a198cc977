"""A child that plays the node: when it is ready, how it ends, and who is told."""

import os
import signal

import pytest

from pykraft.local.process import NodeError, NodeProcess, forwarding_signals

DEAF = "trap '' TERM; echo 'ready: x:1'; while :; do read line || :; done"


def child(script):
    return NodeProcess(["/bin/sh", "-c", script])


def test_the_address_is_taken_from_the_ready_line():
    node = child("echo hello; echo 'ready: 127.0.0.1:4711'")
    assert node.wait_until_ready() == "127.0.0.1:4711"
    assert node.wait() == 0


def test_a_node_that_ends_before_it_is_ready_is_an_error_with_its_code():
    with pytest.raises(NodeError, match="ended with code 7 before it was ready"):
        child("echo starting; exit 7").wait_until_ready()


def test_a_node_that_is_not_ready_in_time_is_an_error():
    node = child("echo starting; exec sleep 60")
    with pytest.raises(NodeError, match="was not ready after"):
        node.wait_until_ready(within_seconds=-1)
    node.stop()
    assert node.wait() == 128 + signal.SIGTERM


def test_a_node_that_stops_cleanly_gives_its_own_code():
    node = child("trap 'exit 0' TERM; echo 'ready: x:1'; while :; do read line || :; done")
    node.wait_until_ready()
    node.stop()
    assert (node.wait(), node.is_stopping) == (0, True)


def test_a_node_that_ignores_the_first_request_is_killed_by_a_later_one():
    times = iter((0, 100, 100.5, 102))
    node = NodeProcess(["/bin/sh", "-c", DEAF], clock=lambda: next(times, 102))
    node.wait_until_ready()
    node.stop()
    node.stop()
    node.stop()
    assert node.wait() == 128 + signal.SIGKILL


def test_one_request_that_arrives_twice_does_not_kill():
    node = child("trap 'exit 0' TERM; echo 'ready: x:1'; while :; do read line || :; done")
    node.wait_until_ready()
    node.stop()
    node.stop()
    assert node.wait() == 0


def test_a_signal_to_us_stops_the_node_and_the_old_handlers_come_back():
    before = signal.getsignal(signal.SIGTERM)
    node = child("echo 'ready: x:1'; exec sleep 60")
    with forwarding_signals(node.stop):
        node.wait_until_ready()
        os.kill(os.getpid(), signal.SIGTERM)
        assert node.wait() == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before


def test_stopping_a_node_that_has_ended_does_nothing():
    node = child("exit 0")
    assert node.wait() == 0
    node.stop()
    assert not node.is_stopping
