"""Five Kafka clients behind one face: `produce` records, `consume` what a partition holds.

A client joins no group here: every consumer is assigned its partition.
"""

import asyncio
import json
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import aiokafka
import confluent_kafka
import kafka
from apache import run_tool
from batches import PlainRecord

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CLIENT_SECONDS_MAX = 60
BIG = 4 << 20
NULL = "<null>"


class Consumed(NamedTuple):
    """A record as a consumer saw it, with its place in the log."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int
    log_append_time: bool

    def as_sent(self) -> PlainRecord:
        return PlainRecord(self.key, self.value, self.headers)


class Client(Protocol):
    name: str

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[PlainRecord], codec: str = "none"
    ) -> None:
        """Send to partition 0 in order, and return when all are acknowledged."""

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Consumed]:
        """Read `count` records of partition 0 from its start."""


class Confluent:
    name = "confluent-kafka"

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[PlainRecord], codec: str = "none"
    ) -> None:
        config = {"compression.type": codec, "linger.ms": 5, "message.max.bytes": BIG}
        producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, **config})
        failures: list[object] = []
        for record in records:
            producer.produce(
                topic,
                partition=0,
                on_delivery=lambda error, _: failures.append(error) if error else None,
                **confluent_fields(record),
            )
        assert producer.flush(CLIENT_SECONDS_MAX) == 0, "not all were acknowledged"
        assert not failures, failures[0]

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Consumed]:
        consumer = confluent_consumer(bootstrap)
        try:
            consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
            messages: list[Any] = []
            while len(messages) < count:
                batch = consumer.consume(count - len(messages), timeout=CLIENT_SECONDS_MAX)
                assert batch, f"{len(messages)} of {count} records came"
                messages += batch
        finally:
            consumer.close()
        return [self.consumed(message) for message in messages]

    @staticmethod
    def consumed(message: Any) -> Consumed:
        assert message.error() is None, message.error()
        kind, timestamp_ms = message.timestamp()
        return Consumed(
            offset=message.offset(),
            key=message.key(),
            value=message.value(),
            headers=tuple(message.headers() or ()),
            timestamp_ms=timestamp_ms,
            log_append_time=kind == confluent_kafka.TIMESTAMP_LOG_APPEND_TIME,
        )


def confluent_consumer(bootstrap: str, **config: Any) -> Any:
    """A consumer for `assign`: librdkafka wants a group's name even then."""
    fixed = {"group.id": "none", "enable.auto.commit": False, "fetch.message.max.bytes": BIG}
    settings = {name.replace("_", "."): value for name, value in config.items()}
    return confluent_kafka.Consumer({"bootstrap.servers": bootstrap, **fixed, **settings})


def confluent_fields(record: PlainRecord) -> dict[str, Any]:
    fields: dict[str, Any] = {"key": record.key, "value": record.value}
    if record.headers:
        fields["headers"] = list(record.headers)
    if record.timestamp_ms >= 0:
        fields["timestamp"] = record.timestamp_ms
    return fields


class Aiokafka:
    name = "aiokafka"

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[PlainRecord], codec: str = "none"
    ) -> None:
        asyncio.run(self._produce(bootstrap, topic, records, None if codec == "none" else codec))

    async def _produce(
        self, bootstrap: str, topic: str, records: Sequence[PlainRecord], codec: str | None
    ) -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap, compression_type=codec, linger_ms=5, max_request_size=BIG
        )
        await producer.start()
        try:
            sent = [
                await producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    partition=0,
                    timestamp_ms=record.timestamp_ms if record.timestamp_ms >= 0 else None,
                )
                for record in records
            ]
            await asyncio.wait_for(asyncio.gather(*sent), CLIENT_SECONDS_MAX)
        finally:
            await producer.stop()

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Consumed]:
        return asyncio.run(asyncio.wait_for(self._consume(bootstrap, topic, count), 60))

    async def _consume(self, bootstrap: str, topic: str, count: int) -> list[Consumed]:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap, enable_auto_commit=False, max_partition_fetch_bytes=BIG
        )
        await consumer.start()
        try:
            partition = aiokafka.TopicPartition(topic, 0)
            consumer.assign([partition])
            consumer.seek(partition, 0)
            return [_from_python(await consumer.getone()) for _ in range(count)]
        finally:
            await consumer.stop()


class KafkaPython:
    name = "kafka-python"

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[PlainRecord], codec: str = "none"
    ) -> None:
        producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            linger_ms=5,
            max_request_size=BIG,
        )
        try:
            sent = [
                producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    partition=0,
                    timestamp_ms=record.timestamp_ms if record.timestamp_ms >= 0 else None,
                )
                for record in records
            ]
            for each in sent:
                each.get(CLIENT_SECONDS_MAX)
        finally:
            producer.close()

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Consumed]:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap,
            enable_auto_commit=False,
            max_partition_fetch_bytes=BIG,
            consumer_timeout_ms=CLIENT_SECONDS_MAX * 1000,
        )
        try:
            partition = kafka.TopicPartition(topic, 0)
            consumer.assign([partition])
            consumer.seek(partition, 0)
            return [_from_python(message) for message in _take(iter(consumer), count)]
        finally:
            consumer.close()


def _take(messages: Iterator[Any], count: int) -> Iterator[Any]:
    for _ in range(count):
        yield next(messages)


def _from_python(message: Any) -> Consumed:
    """aiokafka's and kafka-python's records have the same names."""
    return Consumed(
        offset=message.offset,
        key=message.key,
        value=message.value,
        headers=tuple(message.headers),
        timestamp_ms=message.timestamp,
        log_append_time=message.timestamp_type == 1,
    )


class Kcat:
    """Records are lines of text, and all records of one run carry the same headers."""

    name = "kcat"

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[PlainRecord], codec: str = "none"
    ) -> None:
        headers = records[0].headers
        assert all(record.headers == headers for record in records)
        flags = [
            item
            for name, value in headers
            for item in ("-H", name if value is None else f"{name}={value.decode()}")
        ]
        lines = "".join(f"{_text(r.key)}\t{_text(r.value)}\n" for r in records)
        size = ("-X", f"message.max.bytes={BIG}")
        run_kcat(bootstrap, "-P", "-t", topic, "-p", "0", "-K", "\t", "-Z", "-z", codec, *size,
                 *flags, stdin=lines)  # fmt: skip

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Consumed]:
        place = ("-t", topic, "-p", "0", "-o", "beginning", "-c", str(count))
        size = ("-X", f"fetch.message.max.bytes={BIG}")
        lines = run_kcat(bootstrap, "-C", *place, *size, "-e", "-q", "-J").splitlines()
        return [_from_kcat(json.loads(line)) for line in lines]


def run_kcat(bootstrap: str, *arguments: str, stdin: str = "") -> str:
    done = subprocess.run(
        ["kcat", "-b", bootstrap, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=CLIENT_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, f"kcat {arguments}: {done.stderr}"
    return done.stdout


def _text(data: bytes | None) -> str:
    return "" if data is None else data.decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _from_kcat(message: dict[str, Any]) -> Consumed:
    pairs = message.get("headers", [])
    return Consumed(
        offset=message["offset"],
        key=_bytes(message["key"]),
        value=_bytes(message["payload"]),
        headers=tuple((pairs[i], _bytes(pairs[i + 1])) for i in range(0, len(pairs), 2)),
        timestamp_ms=message["ts"],
        log_append_time=message["tstype"] == "logappend",
    )


class JavaConsole:
    """Apache's console producer and consumer: records are lines of text."""

    name = "java"
    _producer: ClassVar[str] = "org.apache.kafka.tools.ConsoleProducer"
    _consumer: ClassVar[str] = "org.apache.kafka.tools.consumer.ConsoleConsumer"

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[PlainRecord], codec: str = "none"
    ) -> None:
        lines = "".join(
            f"{_java_headers(r.headers)}\t{_java_text(r.key)}\t{_java_text(r.value)}\n"
            for r in records
        )
        properties = ("parse.key=true", "parse.headers=true", f"null.marker={NULL}")
        reader = [item for each in properties for item in ("--reader-property", each)]
        command = ("--command-property", f"max.request.size={BIG}")
        place = ("--bootstrap-server", bootstrap, "--topic", topic)
        run_tool(self._producer, *place, "--compression-codec", codec, *reader, *command,
                 stdin=lines)  # fmt: skip

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Consumed]:
        shown = ("timestamp", "offset", "headers", "key", "value")
        properties = [f"print.{each}=true" for each in shown]
        properties += [f"null.literal={NULL}"]
        formatter = [item for each in properties for item in ("--formatter-property", each)]
        place = ("--bootstrap-server", bootstrap, "--topic", topic, "--partition", "0")
        limits = ("--offset", "earliest", "--max-messages", str(count), "--timeout-ms", "30000")
        printed = run_tool(self._consumer, *place, *limits, *formatter)
        return [_from_java(line) for line in printed.splitlines()]


def _java_text(data: bytes | None) -> str:
    return NULL if data is None else data.decode()


def _java_headers(headers: Sequence[tuple[str, bytes | None]]) -> str:
    return ",".join(f"{name}:{_java_text(value)}" for name, value in headers)


def _from_java(line: str) -> Consumed:
    time, offset, headers, key, value = line.split("\t")
    kind, timestamp_ms = time.split(":")
    pairs = [pair.split(":", 1) for pair in headers.split(",")]
    return Consumed(
        offset=int(offset.removeprefix("Offset:")),
        key=None if key == NULL else key.encode(),
        value=None if value == NULL else value.encode(),
        headers=tuple((name, None if text == NULL else text.encode()) for name, text in pairs)
        if headers != "NO_HEADERS"
        else (),
        timestamp_ms=int(timestamp_ms),
        log_append_time=kind == "LogAppendTime",
    )


CLIENTS: dict[str, Client] = {
    client.name: client
    for client in (Confluent(), Aiokafka(), KafkaPython(), Kcat(), JavaConsole())
}
