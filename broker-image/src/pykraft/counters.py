"""What the node counts while it works. The data path adds, the metrics page reads.

One thread writes (the event loop), any thread may read: every value is a plain int, so a reader
sees an old one or a new one, never half of one. Counting is `counters.thing += n` and nothing else:
no lock, no label look-up, no call. Whoever counts often keeps the object, not its name.

Everything has a bound: API keys come from the wire and topic names from clients, so that keys
nobody serves share one object, and topics past the limit count towards the totals only.
"""

# Room for Kafka's API keys (0 to 94 in 4.4); keys outside are counted together.
API_KEYS_MAX = 128
UNKNOWN_API_KEY = -1
# Each topic costs about 20 time series per scrape; Prometheus suffers before we do.
TOPICS_MAX = 10_000
# A request's time goes to bucket number `time_ns.bit_length()`: bucket n holds [2**(n-1), 2**n).
# A client may ask us to wait for 2**31 ms, which is nearly 2**51 ns; 64 leaves no time without one.
TIME_BUCKETS = 64


class RequestCounters:
    """The requests of one API. Times run from the last byte read to the answer handed over."""

    __slots__ = (
        "api_key",
        "bytes_in",
        "bytes_out",
        "errors",
        "requests",
        "time_buckets",
        "time_ns",
        "time_ns_max",
    )

    def __init__(self, api_key: int) -> None:
        self.api_key = api_key
        self.requests = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.time_ns = 0
        self.time_ns_max = 0
        # How many requests took how long; the quantiles of the dashboards come from here.
        self.time_buckets = [0] * TIME_BUCKETS
        # By error code, only codes of failures: bounded by Kafka's list of codes.
        self.errors: dict[int, int] = {}

    def error(self, code: int) -> None:
        """Failures are rare, so this one may be a call."""
        self.errors[code] = self.errors.get(code, 0) + 1

    def answered(self, time_ns: int) -> None:
        """One request is done. On the hottest path, write these lines out instead."""
        self.requests += 1
        self.time_ns += time_ns
        self.time_buckets[time_ns.bit_length()] += 1
        # A comparison costs a fifth of a call of max().
        if time_ns > self.time_ns_max:  # noqa: PLR1730
            self.time_ns_max = time_ns


class TopicCounters:
    """One topic, all its partitions on this node."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_fetch",
        "failed_produce",
        "fetch_requests",
        "messages_in",
        "produce_requests",
    )

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.bytes_rejected = 0
        self.produce_requests = 0
        self.failed_produce = 0
        self.fetch_requests = 0
        self.failed_fetch = 0

    def add(self, other: "TopicCounters") -> None:
        for name in TopicCounters.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class NodeCounters:
    """The node as a whole. The purgatories go up and down, everything else only up."""

    __slots__ = (
        "connections_accepted",
        "connections_closed",
        "connections_idle_closed",
        "connections_refused",
        "fetch_expired",
        "fetch_purgatory",
        "frames_refused",
        "log_flush_ns",
        "log_flushes",
        "loop_lag_ns",
        "loop_lag_ns_max",
        "produce_expired",
        "produce_purgatory",
        "sessions_expired",
        "started_at_ms",
        "storage_errors",
    )

    def __init__(self, started_at_ms: int = 0) -> None:
        self.started_at_ms = started_at_ms
        # Invariant: connections_closed <= connections_accepted.
        self.connections_accepted = 0
        self.connections_closed = 0
        # Turned away at the door (max.connections) ...
        self.connections_refused = 0
        # ... and shown it (connections.max.idle.ms); these are in connections_closed, too.
        self.connections_idle_closed = 0
        # Frames that no answer can be made for: too long, cut short, forged.
        self.frames_refused = 0
        # Requests that wait now, and how many ran into their time limit.
        self.produce_purgatory = 0
        self.produce_expired = 0
        self.fetch_purgatory = 0
        self.fetch_expired = 0
        # Fetch sessions that lost their slot to another client.
        self.sessions_expired = 0
        # How late the loop ran a timer: the last time it was looked at, and the worst so far.
        self.loop_lag_ns = 0
        self.loop_lag_ns_max = 0
        self.log_flushes = 0
        self.log_flush_ns = 0
        self.storage_errors = 0

    @property
    def connections_open(self) -> int:
        return self.connections_accepted - self.connections_closed

    def loop_lagged(self, lag_ns: int) -> None:
        self.loop_lag_ns = lag_ns
        self.loop_lag_ns_max = max(self.loop_lag_ns_max, lag_ns)


class Counters:
    """All counters of one node."""

    __slots__ = ("node", "requests", "rest", "topics", "topics_max")

    def __init__(self, started_at_ms: int = 0, topics_max: int = TOPICS_MAX) -> None:
        self.node = NodeCounters(started_at_ms)
        self.requests: dict[int, RequestCounters] = {}
        self.topics: dict[str, TopicCounters] = {}
        self.topics_max = topics_max
        # Topics that were deleted or never got a place. The node's totals are the topics' sum and
        # this, so that deleting a topic does not make a total go back.
        self.rest = TopicCounters()

    def request(self, api_key: int) -> RequestCounters:
        found = self.requests.get(api_key)
        if found is not None:
            return found
        if not 0 <= api_key < API_KEYS_MAX:
            api_key = UNKNOWN_API_KEY
        return self.requests.setdefault(api_key, RequestCounters(api_key))

    def topic(self, name: str) -> TopicCounters:
        found = self.topics.get(name)
        if found is not None:
            return found
        if len(self.topics) >= self.topics_max:
            return self.rest
        created = self.topics[name] = TopicCounters()
        return created

    def forget_topic(self, name: str) -> None:
        """The topic was deleted: its series end, the node's totals keep what it counted."""
        gone = self.topics.pop(name, None)
        if gone is not None:
            self.rest.add(gone)

    def all_topics(self) -> TopicCounters:
        """The node's totals."""
        total = TopicCounters()
        total.add(self.rest)
        for topic in list(self.topics.values()):
            total.add(topic)
        return total
