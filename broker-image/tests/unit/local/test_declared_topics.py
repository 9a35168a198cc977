"""Declared topics against those that exist."""

import io
import socket
import struct
from datetime import timedelta

import pytest
from kio.schema.create_topics.v7 import response as create_topics
from kio.schema.describe_configs.v4 import response as describe_configs
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.metadata.v12 import response as metadata
from kio.schema.types import BrokerId, TopicName
from kio.serial import entity_writer
from kio.static.primitive import i8, i16, i32, i32Timedelta

from pykraft.local.admin import Admin
from pykraft.local.spec import SpecError, TopicSpec
from pykraft.local.topics import (
    AddPartitions,
    ChangeConfig,
    Create,
    ObservedTopic,
    plan,
    reconcile,
)
from pykraft.protocol.errors import ErrorCode, KafkaError

ORDERS = TopicSpec("orders", 3, 1, {"retention.ms": "5"})


def test_a_topic_that_is_not_there_is_created():
    assert plan([ORDERS], {}) == [Create(ORDERS)]


def test_a_topic_that_is_as_declared_is_left_alone():
    assert plan([ORDERS], {"orders": ObservedTopic(3, {"retention.ms": "5"})}) == []


def test_a_topic_that_nobody_declared_is_left_alone():
    assert plan([], {"other": ObservedTopic(1, {"retention.ms": "5"})}) == []


def test_missing_partitions_are_added_and_configs_set_and_unset():
    observed = {"orders": ObservedTopic(2, {"retention.ms": "9", "segment.ms": "7"})}
    assert plan([ORDERS], observed) == [
        AddPartitions("orders", 2, 3),
        ChangeConfig("orders", {"retention.ms": "5", "segment.ms": None}),
    ]


def test_partitions_are_never_taken_away():
    with pytest.raises(SpecError, match="partitions cannot be taken away"):
        plan([ORDERS], {"orders": ObservedTopic(4, {})})


def test_what_is_done_is_said_in_one_line_each():
    change = ChangeConfig("orders", {"retention.ms": "5", "segment.ms": None})
    lines = [str(each) for each in (Create(ORDERS), AddPartitions("orders", 2, 3), change)]
    assert lines == [
        "topic orders: created with 3 partitions",
        "topic orders: 2 partitions became 3",
        "topic orders: retention.ms=5, segment.ms unset",
    ]


# On the wire: the answers wait in the socket before they are asked for.

NO_TIME = i32Timedelta.parse(timedelta(0))
NO_ERROR = KioErrorCode(0)


@pytest.fixture
def answering(monkeypatch):
    """A function that makes an Admin whose node answers as told; and what the node received."""
    ours, theirs = socket.socketpair()
    monkeypatch.setattr(socket, "create_connection", lambda *_, **__: ours)

    def admin(*answers):
        for number, answer in enumerate(answers, 1):
            body = io.BytesIO()
            entity_writer(type(answer))(body, answer)
            frame = struct.pack(">i", number) + b"\0" + body.getvalue()
            theirs.sendall(struct.pack(">i", len(frame)) + frame)
        theirs.shutdown(socket.SHUT_WR)
        return Admin("127.0.0.1", 9092)

    yield admin, theirs
    ours.close()
    theirs.close()


def metadata_answer(error, partitions):
    replicas = (BrokerId(1),)
    topic = metadata.MetadataResponseTopic(
        error_code=KioErrorCode(error),
        name=TopicName("orders"),
        topic_id=None,
        is_internal=False,
        partitions=tuple(
            metadata.MetadataResponsePartition(
                error_code=NO_ERROR,
                partition_index=i32(index),
                leader_id=BrokerId(1),
                leader_epoch=i32(0),
                replica_nodes=replicas,
                isr_nodes=replicas,
                offline_replicas=(),
            )
            for index in range(partitions)
        ),
        topic_authorized_operations=i32(0),
    )
    return metadata.MetadataResponse(
        throttle_time=NO_TIME,
        brokers=(),
        cluster_id=None,
        controller_id=BrokerId(1),
        topics=(topic,),
    )


def created_answer(error, message=None):
    topic = create_topics.CreatableTopicResult(
        name=TopicName("orders"),
        topic_id=None,
        error_code=KioErrorCode(error),
        error_message=message,
        topic_config_error_code=i16(0),
        num_partitions=i32(3),
        replication_factor=i16(1),
        configs=None,
    )
    return create_topics.CreateTopicsResponse(throttle_time=NO_TIME, topics=(topic,))


def config_answer(**sources):
    configs = tuple(
        describe_configs.DescribeConfigsResourceResult(
            name=name.replace("_", "."),
            value="5",
            read_only=False,
            config_source=i8(source),
            is_sensitive=False,
            synonyms=(),
            config_type=i8(5),
            documentation=None,
        )
        for name, source in sources.items()
    )
    result = describe_configs.DescribeConfigsResult(
        error_code=NO_ERROR,
        error_message=None,
        resource_type=i8(2),
        resource_name="orders",
        configs=configs,
    )
    return describe_configs.DescribeConfigsResponse(throttle_time=NO_TIME, results=(result,))


def test_a_missing_topic_is_looked_up_and_then_created(answering):
    connect, node = answering
    admin = connect(metadata_answer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0), created_answer(0))
    assert reconcile(admin, [ORDERS]) == [Create(ORDERS)]
    received = node.recv(65536)
    assert received[4:6] == struct.pack(">h", 3)
    assert b"retention.ms" in received


def test_an_existing_topic_is_compared_by_what_was_set_for_itself(answering):
    connect, _ = answering
    admin = connect(metadata_answer(0, 3), config_answer(retention_ms=1, segment_ms=5))
    assert reconcile(admin, [ORDERS]) == []


def test_a_refusal_of_the_node_is_raised_with_its_message(answering):
    connect, _ = answering
    admin = connect(
        metadata_answer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0),
        created_answer(ErrorCode.INVALID_REPLICATION_FACTOR, "too many"),
    )
    with pytest.raises(KafkaError, match="INVALID_REPLICATION_FACTOR: too many"):
        reconcile(admin, [ORDERS])


def test_a_node_that_goes_away_is_a_connection_error(answering):
    connect, _ = answering
    with pytest.raises(ConnectionError, match="closed the connection"):
        connect().partitions_of("orders")
