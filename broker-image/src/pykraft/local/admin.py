"""The few requests that `pykraft up` sends to its own node, on a plain socket.

kio does the bytes here: the node is our own child, so its answers need no suspicion, and the
protocol layer encodes answers only.
"""

import io
import socket
import struct
from collections.abc import Mapping
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from kio.index import load_response_schema
from kio.schema.create_partitions.v3 import request as create_partitions
from kio.schema.create_topics.v7 import request as create_topics
from kio.schema.describe_configs.v4 import request as describe_configs
from kio.schema.incremental_alter_configs.v1 import request as alter_configs
from kio.schema.metadata.v12 import request as metadata
from kio.schema.types import TopicName
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i8, i16, i32, i32Timedelta

from pykraft.configs import ConfigSource, Operation, ResourceType
from pykraft.protocol.errors import ErrorCode, KafkaError

# Longer than the node needs for any of these requests, even on a slow disk.
TIMEOUT_SECONDS = 30
_CLIENT_ID = b"pykraft-up"
_TIMEOUT = i32Timedelta.parse(timedelta(seconds=TIMEOUT_SECONDS))


class Admin:
    """One connection; one request at a time. OSError if the node goes away."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=TIMEOUT_SECONDS)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._socket.close()

    def partitions_of(self, topic: str) -> int | None:
        """How many partitions the topic has; None if there is no such topic."""
        wanted = metadata.MetadataRequestTopic(topic_id=None, name=TopicName(topic))
        request = metadata.MetadataRequest(
            topics=(wanted,),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        (answer,) = self._ask(request).topics
        if answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return None
        _raise_if_refused(answer.error_code, f"topic {topic} cannot be looked up")
        return len(answer.partitions)

    def topic_config(self, topic: str) -> dict[str, str]:
        """What was set for the topic itself."""
        resource = describe_configs.DescribeConfigsResource(
            resource_type=i8(ResourceType.TOPIC), resource_name=topic, configuration_keys=None
        )
        request = describe_configs.DescribeConfigsRequest(resources=(resource,))
        (answer,) = self._ask(request).results
        _raise_if_refused(answer.error_code, answer.error_message)
        return {
            config.name: config.value or ""
            for config in answer.configs
            if config.config_source == ConfigSource.TOPIC
        }

    def create_topic(
        self, topic: str, partitions: int, replicas: int, config: Mapping[str, str]
    ) -> None:
        wanted = create_topics.CreatableTopic(
            name=TopicName(topic),
            num_partitions=i32(partitions),
            replication_factor=i16(replicas),
            assignments=(),
            configs=tuple(
                create_topics.CreatableTopicConfig(name=key, value=value)
                for key, value in config.items()
            ),
        )
        request = create_topics.CreateTopicsRequest(topics=(wanted,), timeout=_TIMEOUT)
        (answer,) = self._ask(request).topics
        _raise_if_refused(answer.error_code, answer.error_message)

    def create_partitions(self, topic: str, total: int) -> None:
        wanted = create_partitions.CreatePartitionsTopic(
            name=TopicName(topic), count=i32(total), assignments=None
        )
        request = create_partitions.CreatePartitionsRequest(
            topics=(wanted,), timeout=_TIMEOUT, validate_only=False
        )
        (answer,) = self._ask(request).results
        _raise_if_refused(answer.error_code, answer.error_message)

    def alter_topic_config(self, topic: str, changes: Mapping[str, str | None]) -> None:
        """Set the keys that have a text, and take the others away."""
        resource = alter_configs.AlterConfigsResource(
            resource_type=i8(ResourceType.TOPIC),
            resource_name=topic,
            configs=tuple(
                alter_configs.AlterableConfig(
                    name=key,
                    config_operation=i8(Operation.DELETE if value is None else Operation.SET),
                    value=value,
                )
                for key, value in changes.items()
            ),
        )
        request = alter_configs.IncrementalAlterConfigsRequest(
            resources=(resource,), validate_only=False
        )
        (answer,) = self._ask(request).responses
        _raise_if_refused(answer.error_code, answer.error_message)

    def _ask(self, request: Any) -> Any:
        self._correlation_id += 1
        key, version = request.__api_key__, request.__version__
        # All versions used here are flexible, so the headers end in a byte for tagged fields.
        header = struct.pack(">hhih", key, version, self._correlation_id, len(_CLIENT_ID))
        body = io.BytesIO()
        entity_writer(type(request))(body, request)
        frame = header + _CLIENT_ID + b"\0" + body.getvalue()
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", self._receive(4))
        answer = self._receive(size)
        assert answer[:4] == struct.pack(">i", self._correlation_id), "an answer out of order"
        return entity_reader(load_response_schema(key, version))(answer, 5)[0]

    def _receive(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            chunk = self._socket.recv(size - len(received))
            if not chunk:
                raise ConnectionError("the node closed the connection")
            received += chunk
        return bytes(received)


def _raise_if_refused(code: int, message: str | None) -> None:
    if code != ErrorCode.NONE:
        raise KafkaError(ErrorCode(code), message)
