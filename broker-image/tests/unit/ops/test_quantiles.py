from pykraft.counters import RequestCounters
from pykraft.ops.quantiles import STEP_NS, WINDOW_NS, RecentTimes, quantile_ns


def buckets_of(*times_ns: int) -> list[int]:
    counters = RequestCounters(0)
    for time_ns in times_ns:
        counters.answered(time_ns)
    return counters.time_buckets


def test_a_quantile_lies_in_the_bucket_of_the_true_one() -> None:
    buckets = buckets_of(*[1_000] * 98, *[5_000_000] * 2)
    assert 512 <= quantile_ns(buckets, 0.5) <= 1024
    assert 4_194_304 <= quantile_ns(buckets, 0.99) <= 8_388_608


def test_without_requests_every_quantile_is_zero() -> None:
    assert quantile_ns(buckets_of(), 0.99) == 0


def test_a_request_that_took_no_time_at_all_is_below_a_nanosecond() -> None:
    assert 0 <= quantile_ns(buckets_of(0), 0.5) <= 1


def test_a_slow_start_is_forgotten_after_five_minutes() -> None:
    recent = RecentTimes()
    start = buckets_of(*[10**9] * 100)
    assert sum(recent.recent(start, now_ns=0)) == 100
    now = [count + more for count, more in zip(start, buckets_of(1000, 1000), strict=True)]
    assert sum(recent.recent(now, now_ns=WINDOW_NS)) == 2
    assert quantile_ns(recent.recent(now, now_ns=WINDOW_NS + 1), 0.99) < 2000


def test_scrapes_in_quick_succession_keep_a_bounded_past() -> None:
    recent = RecentTimes()
    for now_ns in range(0, 10 * WINDOW_NS, STEP_NS // 7):
        recent.recent(buckets_of(1), now_ns)
    assert len(recent._past) <= WINDOW_NS // STEP_NS + 2
