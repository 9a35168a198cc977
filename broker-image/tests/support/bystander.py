"""A client that has nothing to do with the trouble: it writes and reads while others misbehave.

It speaks bare frames, because a real client would hide an error behind a retry.
"""

import threading
import time
from typing import Any, Self

from batches import batch_of
from raw_client import RawClient
from waiting import eventually

PRODUCE, FETCH, CREATE_TOPICS = 0, 1, 19
TOPIC = "bystander"
# Between two rounds: often enough to notice a stall, seldom enough to leave the cores to the test.
PAUSE_S = 0.005
GOES_ON_SECONDS_MAX = 20


def create_topic(port: int, name: str, **configs: str) -> bytes:
    """Create a topic of one partition and wait until it is led; returns its id."""
    wanted = {
        "name": name,
        "num_partitions": 1,
        "replication_factor": 1,
        "assignments": [],
        "configs": [{"name": key.replace("_", "."), "value": configs[key]} for key in configs],
    }
    with RawClient(port) as client:
        (topic,) = client.ask(CREATE_TOPICS, 7, topics=[wanted])["topics"]
        assert topic["error_code"] == 0, topic
        # The controller answers; the broker hears of it a moment later.
        eventually(
            lambda: fetch(client, name, 0)["error_code"] == 0,
            within_s=GOES_ON_SECONDS_MAX,
            because=f"{name} has its leader",
        )
    topic_id: bytes = topic["topic_id"]
    return topic_id


def produce(client: RawClient, topic: str, records: bytes, acks: int = -1) -> dict[str, Any]:
    """Write to partition 0; the partition's part of the answer."""
    data = [{"name": topic, "partition_data": [{"index": 0, "records": records}]}]
    answer = client.ask(PRODUCE, 9, acks=acks, timeout=10_000, topic_data=data)
    (reply,) = answer["responses"][0]["partition_responses"]
    assert isinstance(reply, dict)
    return reply


def fetch(client: RawClient, topic: str, offset: int, max_bytes: int = 1 << 20) -> dict[str, Any]:
    """Read partition 0 without waiting; the partition's part of the answer."""
    answer = client.ask(FETCH, 12, **fetch_values(topic, offset, max_bytes))
    (reply,) = answer["responses"][0]["partitions"]
    assert isinstance(reply, dict)
    return reply


def fetch_values(topic: str, offset: int, max_bytes: int, max_wait: int = 0) -> dict[str, Any]:
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": max_bytes}
    return {
        "max_wait": max_wait,
        "min_bytes": 1,
        "max_bytes": max_bytes,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": [partition]}],
        "rack_id": "",
    }


class Bystander:
    """Writes a record with acks=all and reads it back, over and over, until the block ends.

    Leaving the block fails if a single request failed, or if nothing was done meanwhile.
    """

    def __init__(self, port: int, topic: str = TOPIC) -> None:
        self.topic = topic
        self.seconds: list[float] = []
        self._client = RawClient(port)
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="bystander", daemon=True)

    def goes_on(self) -> None:
        """Wait until it has done three more rounds, all begun after now."""
        before = len(self.seconds)
        eventually(
            lambda: self._failure or len(self.seconds) >= before + 4,
            within_s=GOES_ON_SECONDS_MAX,
            because="the bystander goes on",
        )
        self._raise()

    def quantile(self, share: float, since: int = 0) -> float:
        """Seconds of a round; `since` leaves out the first rounds."""
        ordered = sorted(self.seconds[since:])
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)]

    def __enter__(self) -> Self:
        self._thread.start()
        self.goes_on()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.goes_on()
        finally:
            self._stop.set()
            self._thread.join(GOES_ON_SECONDS_MAX)
            self._client.close()

    def _run(self) -> None:
        try:
            number = 0
            while not self._stop.wait(PAUSE_S):
                number += 1
                started = time.perf_counter()
                self._round(b"%d" % number)
                self.seconds.append(time.perf_counter() - started)
        except BaseException as failure:
            self._failure = failure

    def _round(self, value: bytes) -> None:
        batch = batch_of(value).encode()
        written = produce(self._client, self.topic, batch)
        assert written["error_code"] == 0, written
        read = fetch(self._client, self.topic, written["base_offset"])
        assert read["error_code"] == 0, read
        # Everything after base offset and epoch, which the leader sets.
        assert bytes(read["records"])[16:] == batch[16:], "another batch than the one written"

    def _raise(self) -> None:
        if self._failure is not None:
            raise AssertionError(f"the bystander failed: {self._failure!r}") from self._failure
