"""Metadata and control records, as Apache Kafka 4.3.1 wrote them.

The bytes were taken from the `__cluster_metadata` log and snapshots of a running broker; those of
old versions, and of records that such a broker does not write, were asked of its serializer.
"""

import dataclasses
import typing
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykraft.ids import Uuid
from pykraft.protocol import metadata_records as md
from pykraft.protocol.control_records import (
    CONTROL_RECORDS,
    ControlRecord,
    ElectionVoter,
    KRaftVersion,
    KRaftVersionFeature,
    LeaderChange,
    SnapshotFooter,
    SnapshotHeader,
    Voter,
    VoterEndpoint,
    Voters,
    decode_control_record,
    encode_control_record,
)
from pykraft.protocol.errors import ProtocolError
from pykraft.protocol.metadata_records import (
    RECORDS,
    Endpoint,
    MetadataRecord,
    QuotaEntity,
    SupportedFeature,
    decode_record,
    encode_record,
)

DIRECTORY = Uuid(bytes.fromhex("d493fed053a14bfcb805ffd110075b53"))
TOPIC = Uuid(bytes.fromhex("d53cf830612a45168ea3917b9da6f48a"))
ACL = Uuid(bytes.fromhex("5c7426d077674bedae9cf4e403c0962d"))
ONE_TWO = Uuid(bytes.fromhex("00000000000000010000000000000002"))
THREE_FOUR = Uuid(bytes.fromhex("00000000000000030000000000000004"))


def feature(name: str, low: int, high: int) -> SupportedFeature:
    return SupportedFeature(name=name, min_supported_version=low, max_supported_version=high)


def registration(version: int) -> md.RegisterBrokerRecord:
    return md.RegisterBrokerRecord(
        broker_id=3,
        incarnation_id=ONE_TWO,
        broker_epoch=9,
        end_points=(Endpoint(name="P", host="h", port=65535, security_protocol=1),),
        features=(feature("f", 0, 2),),
        rack=None,
        fenced=False,
        in_controlled_shutdown=version >= 1,
        is_migrating_zk_broker=version >= 2,
        log_dirs=(ONE_TWO, THREE_FOUR) if version >= 3 else (),
        cordoned_log_dirs=(THREE_FOUR,) if version >= 4 else None,
    )


def partition(version: int) -> md.PartitionRecord:
    return md.PartitionRecord(
        partition_id=5,
        topic_id=ONE_TWO,
        replicas=(1, 2),
        isr=(1,),
        removing_replicas=(2,),
        adding_replicas=(3,),
        leader=1,
        leader_recovery_state=1,
        leader_epoch=7,
        partition_epoch=8,
        directories=(ONE_TWO, THREE_FOUR) if version >= 1 else (),
        eligible_leader_replicas=(2,) if version >= 2 else None,
        last_known_elr=(3,) if version >= 2 else None,
    )


def change(version: int) -> md.PartitionChangeRecord:
    return md.PartitionChangeRecord(
        partition_id=5,
        topic_id=ONE_TWO,
        isr=(1,),
        leader=2,
        replicas=(1, 2),
        removing_replicas=(),
        adding_replicas=(3,),
        leader_recovery_state=0,
        directories=(ONE_TWO, THREE_FOUR) if version >= 1 else None,
        eligible_leader_replicas=(2,) if version >= 2 else None,
        last_known_elr=() if version >= 2 else None,
    )


# (version, bytes, record)
WRITTEN_BY_KAFKA: list[tuple[int, str, MetadataRecord]] = [
    (
        4,
        "010004000000010049ea9e956d734c44bb00ee24d9df7566000000000000000d020a504c41494e544558"
        "540a3132372e302e302e3198b4000000081073747265616d732e76657273696f6e000000010014747261"
        "6e73616374696f6e2e76657273696f6e000000020021656c696769626c652e6c65616465722e7265706c"
        "696361732e76657273696f6e0000000100116d657461646174612e76657273696f6e0007001e000e7368"
        "6172652e76657273696f6e00000001000e6b726166742e76657273696f6e00000001000e67726f75702e"
        "76657273696f6e0000000100037231010001001102d493fed053a14bfcb805ffd110075b53",
        md.RegisterBrokerRecord(
            broker_id=1,
            incarnation_id=Uuid(bytes.fromhex("49ea9e956d734c44bb00ee24d9df7566")),
            broker_epoch=13,
            end_points=(
                Endpoint(name="PLAINTEXT", host="127.0.0.1", port=39092, security_protocol=0),
            ),
            features=(
                feature("streams.version", 0, 1),
                feature("transaction.version", 0, 2),
                feature("eligible.leader.replicas.version", 0, 1),
                feature("metadata.version", 7, 30),
                feature("share.version", 0, 1),
                feature("kraft.version", 0, 1),
                feature("group.version", 0, 1),
            ),
            rack="r1",
            fenced=True,
            log_dirs=(DIRECTORY,),
        ),
    ),
    (
        0,
        "010000000000030000000000000001000000000000000200000000000000090202500268ffff00010002"
        "02660000000200000000",
        registration(0),
    ),
    (
        1,
        "010001000000030000000000000001000000000000000200000000000000090202500268ffff00010002"
        "0266000000020000000100",
        registration(1),
    ),
    (
        2,
        "01000200000003010000000000000001000000000000000200000000000000090202500268ffff000100"
        "020266000000020000000100",
        registration(2),
    ),
    (
        3,
        "01000300000003010000000000000001000000000000000200000000000000090202500268ffff000100"
        "020266000000020000000101002103000000000000000100000000000000020000000000000003000000"
        "0000000004",
        registration(3),
    ),
    (
        4,
        "01000400000003010000000000000001000000000000000200000000000000090202500268ffff000100"
        "020266000000020000000102002103000000000000000100000000000000020000000000000003000000"
        "000000000401110200000000000000030000000000000004",
        registration(4),
    ),
    (0, "01010000000003000000000000000900", md.UnregisterBrokerRecord(broker_id=3, broker_epoch=9)),
    (
        0,
        "010200076f7264657273d53cf830612a45168ea3917b9da6f48a00",
        md.TopicRecord(name="orders", topic_id=TOPIC),
    ),
    (
        2,
        "01030200000000d53cf830612a45168ea3917b9da6f48a02000000010200000001010100000001000000"
        "000000000002d493fed053a14bfcb805ffd110075b5300",
        md.PartitionRecord(
            partition_id=0,
            topic_id=TOPIC,
            replicas=(1,),
            isr=(1,),
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
            directories=(DIRECTORY,),
        ),
    ),
    (
        0,
        "010300000000050000000000000001000000000000000203000000010000000202000000010200000002"
        "020000000300000001000000070000000801000101",
        partition(0),
    ),
    (
        1,
        "010301000000050000000000000001000000000000000203000000010000000202000000010200000002"
        "020000000300000001000000070000000803000000000000000100000000000000020000000000000003"
        "000000000000000401000101",
        partition(1),
    ),
    (
        2,
        "010302000000050000000000000001000000000000000203000000010000000202000000010200000002"
        "020000000300000001000000070000000803000000000000000100000000000000020000000000000003"
        "0000000000000004030001010105020000000202050200000003",
        partition(2),
    ),
    (
        0,
        "0104000401146d696e2e696e73796e632e7265706c69636173023100",
        md.ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="1"),
    ),
    (
        2,
        "01050200000000d53cf830612a45168ea3917b9da6f48a040001010104ffffffff060502000000010705"
        "0200000001",
        md.PartitionChangeRecord(
            partition_id=0,
            topic_id=TOPIC,
            isr=(),
            leader=-1,
            eligible_leader_replicas=(1,),
            last_known_elr=(1,),
        ),
    ),
    (
        0,
        "010500000000050000000000000001000000000000000206000502000000010104000000020209030000"
        "00010000000203010104050200000003050100",
        change(0),
    ),
    (
        1,
        "010501000000050000000000000001000000000000000207000502000000010104000000020209030000"
        "000100000002030101040502000000030501000821030000000000000001000000000000000200000000"
        "000000030000000000000004",
        change(1),
    ),
    (
        2,
        "010502000000050000000000000001000000000000000209000502000000010104000000020209030000"
        "000100000002030101040502000000030501000605020000000207010108210300000000000000010000"
        "00000000000200000000000000030000000000000004",
        change(2),
    ),
    (0, "01070000000003000000000000000900", md.FenceBrokerRecord(id=3, epoch=9)),
    (0, "01080000000003000000000000000900", md.UnfenceBrokerRecord(id=3, epoch=9)),
    (
        0,
        "0109005f7abaef6773494b8a8994d66ec06add00",
        md.RemoveTopicRecord(topic_id=Uuid(bytes.fromhex("5f7abaef6773494b8a8994d66ec06add"))),
    ),
    (
        0,
        "010a0007557365723a6107557365723a620307557365723a6307557365723a6400000000000000010000"
        "0000000000020000000000000003027400",
        md.DelegationTokenRecord(
            owner="User:a",
            requester="User:b",
            renewers=("User:c", "User:d"),
            issue_timestamp=1,
            max_timestamp=2,
            expiration_timestamp=3,
            token_id="t",
        ),
    ),
    (
        0,
        "010b0006616c696365011a33756a793637736a686972326a6931306733753936756d357221a73acd5a8f"
        "ac15368c75d6589043c831079401623903964a6c292a55f5560f6521aea2fee478532781c3859a606675"
        "78dcc423ad106024a69a4139bbe10adcb60a0000100000",
        md.UserScramCredentialRecord(
            name="alice",
            mechanism=1,
            salt=b"3ujy67sjhir2ji10g3u96um5r",
            stored_key=bytes.fromhex(
                "a73acd5a8fac15368c75d6589043c831079401623903964a6c292a55f5560f65"
            ),
            server_key=bytes.fromhex(
                "aea2fee478532781c3859a60667578dcc423ad106024a69a4139bbe10adcb60a"
            ),
            iterations=4096,
        ),
    ),
    (
        0,
        "010c00116d657461646174612e76657273696f6e001e00",
        md.FeatureLevelRecord(name="metadata.version", feature_level=30),
    ),
    (
        0,
        "010e00030a636c69656e742d69640000057573657204626f62001370726f64756365725f627974655f72"
        "61746540900000000000000000",
        md.ClientQuotaRecord(
            entity=(
                QuotaEntity(entity_type="client-id", entity_name=None),
                QuotaEntity(entity_type="user", entity_name="bob"),
            ),
            key="producer_byte_rate",
            value=1024.0,
            remove=False,
        ),
    ),
    (
        0,
        "010f0000000001000000000000000d00000000000003e800",
        md.ProducerIdsRecord(broker_id=1, broker_epoch=13, next_producer_id=1000),
    ),
    (
        3,
        "01110300000001000000000000000d01030101",
        md.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=13, cordoned_log_dirs=()),
    ),
    (
        0,
        "01110000000001000000000000000d010001ff",
        md.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=13, fenced=-1),
    ),
    (
        1,
        "01110100000001000000000000000d01010101",
        md.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=13, in_controlled_shutdown=1),
    ),
    (
        2,
        "0111020000000300000000000000090300010101010102110200000000000000010000000000000002",
        md.BrokerRegistrationChangeRecord(
            broker_id=3, broker_epoch=9, fenced=1, in_controlled_shutdown=1, log_dirs=(ONE_TWO,)
        ),
    ),
    (
        0,
        "0112005c7426d077674bedae9cf4e403c0962d02076f7264657273030b557365723a6361726f6c022a030300",
        md.AccessControlEntryRecord(
            id=ACL,
            resource_type=2,
            resource_name="orders",
            pattern_type=3,
            principal="User:carol",
            host="*",
            operation=3,
            permission_type=3,
        ),
    ),
    (0, "0113005c7426d077674bedae9cf4e403c0962d00", md.RemoveAccessControlEntryRecord(id=ACL)),
    (0, "01140000", md.NoOpRecord()),
    (0, "0115000200", md.ZkMigrationStateRecord(zk_migration_state=2)),
    (0, "01160006616c6963650100", md.RemoveUserScramCredentialRecord(name="alice", mechanism=1)),
    (
        0,
        "01170001001212426f6f747374726170207265636f726473",
        md.BeginTransactionRecord(name="Bootstrap records"),
    ),
    (0, "01180000", md.EndTransactionRecord()),
    (0, "011900010005056c6f7374", md.AbortTransactionRecord(reason="lost")),
    (0, "01190000", md.AbortTransactionRecord()),
    (0, "011a00027400", md.RemoveDelegationTokenRecord(token_id="t")),
    (
        0,
        "011b00000000011c5f5cf5f882498593c6b715d4eacaae00020b434f4e54524f4c4c45520a3132372e30"
        "2e302e3198b5000000080e67726f75702e76657273696f6e00000001000e6b726166742e76657273696f"
        "6e0000000100116d657461646174612e76657273696f6e0007001e000e73686172652e76657273696f6e"
        "00000001001073747265616d732e76657273696f6e0000000100147472616e73616374696f6e2e766572"
        "73696f6e000000020021656c696769626c652e6c65616465722e7265706c696361732e76657273696f6e"
        "000000010000",
        md.RegisterControllerRecord(
            controller_id=1,
            incarnation_id=Uuid(bytes.fromhex("1c5f5cf5f882498593c6b715d4eacaae")),
            end_points=(
                Endpoint(name="CONTROLLER", host="127.0.0.1", port=39093, security_protocol=0),
            ),
            features=(
                feature("group.version", 0, 1),
                feature("kraft.version", 0, 1),
                feature("metadata.version", 7, 30),
                feature("share.version", 0, 1),
                feature("streams.version", 0, 1),
                feature("transaction.version", 0, 2),
                feature("eligible.leader.replicas.version", 0, 1),
            ),
        ),
    ),
    (0, "011c00076f726465727300", md.ClearElrRecord(topic_name="orders")),
]


@pytest.mark.parametrize(("version", "written", "record"), WRITTEN_BY_KAFKA)
def test_a_metadata_record_is_kafkas_byte_for_byte(
    version: int, written: str, record: MetadataRecord
) -> None:
    assert decode_record(bytes.fromhex(written)) == record
    assert encode_record(record, version).hex() == written


def test_every_record_is_held_against_kafkas_bytes() -> None:
    assert {type(record) for _, _, record in WRITTEN_BY_KAFKA} == set(RECORDS.values())


# (key, value, record)
CONTROL_WRITTEN_BY_KAFKA: list[tuple[str, str, ControlRecord]] = [
    (
        "00000002",
        "00000000000102000000010002000000010000",
        LeaderChange(
            leader_id=1,
            voters=(ElectionVoter(voter_id=1),),
            granting_voters=(ElectionVoter(voter_id=1),),
        ),
    ),
    (
        "00000003",
        "0000000001a1edb526c600",
        SnapshotHeader(last_contained_log_timestamp=1794989434566),
    ),
    ("00000004", "000000", SnapshotFooter()),
    ("00000005", "0000000100", KRaftVersion(k_raft_version=1)),
    (
        "00000006",
        "00000200000001d493fed053a14bfcb805ffd110075b53020b434f4e54524f4c4c4552"
        "0a3132372e302e302e3198b50000000001000000",
        Voters(
            voters=(
                Voter(
                    voter_id=1,
                    voter_directory_id=DIRECTORY,
                    endpoints=(VoterEndpoint(name="CONTROLLER", host="127.0.0.1", port=39093),),
                    k_raft_version_feature=KRaftVersionFeature(
                        min_supported_version=0, max_supported_version=1
                    ),
                ),
            )
        ),
    ),
]


@pytest.mark.parametrize(("key", "value", "record"), CONTROL_WRITTEN_BY_KAFKA)
def test_a_control_record_is_kafkas_byte_for_byte(
    key: str, value: str, record: ControlRecord
) -> None:
    assert decode_control_record(bytes.fromhex(key), bytes.fromhex(value)) == record
    assert encode_control_record(record) == (bytes.fromhex(key), bytes.fromhex(value))


def test_a_leader_change_of_version_1_names_the_directories_of_the_voters() -> None:
    voter = ElectionVoter(voter_id=1, voter_directory_id=DIRECTORY)
    record = LeaderChange(version=1, leader_id=1, voters=(voter,), granting_voters=(voter,))

    key, value = encode_control_record(record)

    assert value.count(DIRECTORY) == 2
    assert decode_control_record(key, value) == record


INTEGERS = {
    name: st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)
    for name, bits in {"int8": 8, "int16": 16, "int32": 32, "int64": 64}.items()
}
PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    **INTEGERS,
    "uint16": st.integers(0, 0xFFFF),
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False),
    "string": st.text(max_size=40),
    "bytes": st.binary(max_size=40),
    "uuid": st.binary(min_size=16, max_size=16),
}


def instances(entity: Any, version: int) -> st.SearchStrategy[Any]:
    """Instances of which `version` can carry everything."""
    hints = typing.get_type_hints(entity)
    values = {}
    for field in dataclasses.fields(entity):
        kafka_type = field.metadata["kafka_type"]
        if field.metadata["since"] > version:
            continue
        if field.name == "version":
            values[field.name] = st.just(version)
            continue
        nested = isinstance(kafka_type, type)
        strategy = instances(kafka_type, version) if nested else PRIMITIVES[kafka_type]
        if "tuple" in str(hints[field.name]):
            strategy = st.lists(strategy, max_size=3).map(tuple)
        if type(None) in typing.get_args(hints[field.name]):
            strategy = st.none() | strategy
        values[field.name] = strategy
    return st.fixed_dictionaries(values).map(lambda given_values: entity(**given_values))


@pytest.mark.parametrize(
    ("entity", "version"),
    [(entity, v) for entity in RECORDS.values() for v in range(entity.__version__ + 1)],
)
@given(data=st.data())
@settings(max_examples=15)
def test_a_metadata_record_survives_the_round_trip(
    entity: type[MetadataRecord], version: int, data: st.DataObject
) -> None:
    record = data.draw(instances(entity, version))
    written = encode_record(record, version)

    assert decode_record(memoryview(bytearray(written))) == record
    for size in range(len(written)):
        with pytest.raises(ProtocolError):
            decode_record(written[:size])
    with pytest.raises(ProtocolError, match="1 bytes follow"):
        decode_record(written + b"\x00")


@pytest.mark.parametrize(
    ("entity", "version"),
    [(entity, v) for entity in CONTROL_RECORDS.values() for v in range(entity.__version_max__ + 1)],
)
@given(data=st.data())
@settings(max_examples=15)
def test_a_control_record_survives_the_round_trip(
    entity: type[ControlRecord], version: int, data: st.DataObject
) -> None:
    record = data.draw(instances(entity, version))
    key, value = encode_control_record(record)

    assert decode_control_record(key, value) == record
    for size in range(len(value)):
        with pytest.raises(ProtocolError):
            decode_control_record(key, value[:size])


@given(key=st.sampled_from(sorted(RECORDS)), version=st.integers(0, 4), body=st.binary(max_size=90))
def test_random_bytes_in_a_record_are_read_or_refused(key: int, version: int, body: bytes) -> None:
    with suppress(ProtocolError):
        decode_record(bytes((1, key, version)) + body)
    with suppress(ProtocolError):
        decode_control_record(bytes((0, 0, 0, key % 8)), body)


@pytest.mark.parametrize(
    "value", ["", "01", "00140000", "01060000", "011d0000", "01140100", "80808080808001"]
)
def test_a_record_that_kafka_4_3_does_not_know_is_refused(value: str) -> None:
    with pytest.raises(ProtocolError):
        decode_record(bytes.fromhex(value))


@pytest.mark.parametrize(
    ("key", "value"), [("00000007", "000000"), ("00000005", "0009"), ("00", "")]
)
def test_a_control_record_that_kafka_4_3_does_not_know_is_refused(key: str, value: str) -> None:
    with pytest.raises(ProtocolError):
        decode_control_record(bytes.fromhex(key), bytes.fromhex(value))


def test_records_keep_nothing_of_the_buffer_that_they_were_read_from() -> None:
    buffer = bytearray(encode_record(md.TopicRecord(name="t", topic_id=TOPIC)))
    record = decode_record(buffer)

    buffer[:] = bytes(len(buffer))

    assert record == md.TopicRecord(name="t", topic_id=TOPIC)
