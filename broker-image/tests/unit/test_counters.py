"""Counters: plain additions on the data path, bounded whatever clients send."""

from pykraft.counters import (
    API_KEYS_MAX,
    TIME_BUCKETS,
    UNKNOWN_API_KEY,
    Counters,
    NodeCounters,
    TopicCounters,
)


def test_the_same_key_gives_the_same_object_so_that_callers_may_keep_it() -> None:
    counters = Counters()
    produce = counters.request(0)
    produce.requests += 1
    assert counters.request(0) is produce
    assert counters.topic("orders") is counters.topic("orders")
    assert counters.requests[0].requests == 1


def test_unknown_api_keys_share_one_object_however_many_a_client_invents() -> None:
    counters = Counters()
    for api_key in (-32768, -1, API_KEYS_MAX, 32767):
        counters.request(api_key).requests += 1
    assert list(counters.requests) == [UNKNOWN_API_KEY]
    assert counters.requests[UNKNOWN_API_KEY].requests == 4


def test_an_answered_request_counts_its_time_in_sum_maximum_and_bucket() -> None:
    fetch = Counters().request(1)
    fetch.answered(1000)
    fetch.answered(3)
    assert (fetch.requests, fetch.time_ns, fetch.time_ns_max) == (2, 1003, 1000)
    assert fetch.time_buckets[10] == 1
    assert fetch.time_buckets[2] == 1


def test_a_request_that_took_no_time_or_the_longest_poll_there_is_still_has_a_bucket() -> None:
    fetch = Counters().request(1)
    fetch.answered(0)
    fetch.answered((2**31 - 1) * 10**6)
    assert sum(fetch.time_buckets) == 2
    assert len(fetch.time_buckets) == TIME_BUCKETS


def test_errors_are_counted_per_code() -> None:
    produce = Counters().request(0)
    for code in (3, 3, 87):
        produce.error(code)
    assert produce.errors == {3: 2, 87: 1}


def test_deleting_a_topic_ends_its_series_but_not_the_total() -> None:
    counters = Counters()
    counters.topic("orders").bytes_in += 100
    counters.topic("payments").bytes_in += 10
    counters.forget_topic("orders")
    counters.forget_topic("never existed")
    assert list(counters.topics) == ["payments"]
    assert counters.all_topics().bytes_in == 110


def test_topics_past_the_limit_count_towards_the_total_only() -> None:
    counters = Counters(topics_max=2)
    for name in ("a", "b", "c", "d"):
        counters.topic(name).messages_in += 1
    assert list(counters.topics) == ["a", "b"]
    assert counters.all_topics().messages_in == 4


def test_adding_covers_every_counter_of_a_topic() -> None:
    one, sum_of_two = TopicCounters(), TopicCounters()
    for name in TopicCounters.__slots__:
        setattr(one, name, 7)
    sum_of_two.add(one)
    sum_of_two.add(one)
    assert {getattr(sum_of_two, name) for name in TopicCounters.__slots__} == {14}


def test_open_connections_are_those_accepted_and_not_yet_closed() -> None:
    node = NodeCounters()
    node.connections_accepted += 5
    node.connections_closed += 2
    assert node.connections_open == 3


def test_loop_lag_keeps_the_last_and_the_worst() -> None:
    node = NodeCounters(started_at_ms=5)
    for lag in (10, 900, 20):
        node.loop_lagged(lag)
    assert (node.loop_lag_ns, node.loop_lag_ns_max, node.started_at_ms) == (20, 900, 5)
