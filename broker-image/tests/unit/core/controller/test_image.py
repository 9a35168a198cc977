"""Replay alone makes an image, and a snapshot of an image makes the same image again."""

from typing import Any

import pytest
from played_cluster import PlayedCluster, numbered_uuid, topic

from pykraft.core.controller.controller import Outcome
from pykraft.core.controller.image import MetadataImage
from pykraft.core.controller.records import Transactions, snapshot_records, version_of
from pykraft.protocol import metadata_records as md
from pykraft.protocol.metadata_records import MetadataRecord, decode_record, encode_record

TOPIC_ID = numbered_uuid(5000)
EVERYTHING_ELSE: tuple[MetadataRecord, ...] = (
    md.AccessControlEntryRecord(
        id=numbered_uuid(1),
        resource_type=2,
        resource_name="t",
        pattern_type=3,
        principal="User:a",
        host="*",
        operation=3,
        permission_type=3,
    ),
    md.ClientQuotaRecord(
        entity=(
            md.QuotaEntity(entity_type="user", entity_name=None),
            md.QuotaEntity(entity_type="client-id", entity_name="c"),
        ),
        key="producer_byte_rate",
        value=1024.5,
        remove=False,
    ),
    md.UserScramCredentialRecord(
        name="a", mechanism=1, salt=b"salt", stored_key=b"k", server_key=b"s", iterations=4096
    ),
    md.DelegationTokenRecord(
        owner="User:a",
        requester="User:b",
        renewers=("User:c",),
        issue_timestamp=1,
        max_timestamp=2,
        expiration_timestamp=3,
        token_id="token",
    ),
    md.ZkMigrationStateRecord(zk_migration_state=3),
    md.ProducerIdsRecord(broker_id=1, broker_epoch=9, next_producer_id=7000),
    md.RegisterControllerRecord(
        controller_id=1,
        incarnation_id=numbered_uuid(9),
        end_points=(md.Endpoint(name="C", host="h", port=9093, security_protocol=0),),
        features=(
            md.SupportedFeature(
                name="metadata.version", min_supported_version=7, max_supported_version=30
            ),
        ),
    ),
)


def contents(image: MetadataImage) -> dict[str, Any]:
    return {name: getattr(image, name) for name in MetadataImage.__slots__}


def a_cluster() -> PlayedCluster:
    cluster = PlayedCluster().with_brokers(1, 2, racks="ab")
    cluster.create(topic("t", 2, 2, configs={"retention.ms": "1", "min.insync.replicas": "2"}))
    cluster.create(topic("u"))
    cluster.heartbeat(2, want_fence=True, cordoned_log_dirs=[])
    cluster.run(Outcome(list(EVERYTHING_ELSE)))
    return cluster


def test_a_snapshot_of_an_image_makes_the_same_image() -> None:
    image = a_cluster().image
    again = MetadataImage(offset=image.offset, epoch=image.epoch)
    for record in snapshot_records(image):
        version = version_of(record, image.metadata_version)
        again.replay(decode_record(encode_record(record, version)))
    assert contents(again) == contents(image)
    assert all(again.topics_by_id[each.id] is each for each in again.topics.values())


def test_a_log_read_again_makes_the_same_image() -> None:
    cluster = a_cluster()
    before = contents(cluster.image.copy())
    cluster.crash()
    assert contents(cluster.image) == before


def test_a_copy_does_not_follow_what_happens_to_the_original() -> None:
    cluster = a_cluster()
    copy = cluster.image.copy()
    before = contents(copy.copy())
    cluster.create(topic("later"))
    cluster.heartbeat(1, want_fence=True)
    assert contents(copy) == before
    assert contents(cluster.image) != before


def test_what_is_removed_is_gone() -> None:
    image = MetadataImage()
    for record in EVERYTHING_ELSE[:4]:
        image.replay(record)
    quota = EVERYTHING_ELSE[1]
    assert isinstance(quota, md.ClientQuotaRecord)
    image.replay(md.RemoveAccessControlEntryRecord(id=numbered_uuid(1)))
    image.replay(
        md.ClientQuotaRecord(entity=quota.entity[::-1], key=quota.key, value=0.0, remove=True)
    )
    image.replay(md.RemoveUserScramCredentialRecord(name="a", mechanism=1))
    image.replay(md.RemoveDelegationTokenRecord(token_id="token"))
    assert contents(image) == contents(MetadataImage())


def test_the_leader_epoch_grows_when_a_leader_is_named_and_the_partition_epoch_always() -> None:
    cluster = a_cluster()
    old = cluster.partition("u")
    topic_id = cluster.image.topics["u"].id
    change = {"partition_id": 0, "topic_id": topic_id}
    cluster.run(Outcome([md.PartitionChangeRecord(**change, leader_recovery_state=1)]))
    cluster.run(Outcome([md.PartitionChangeRecord(**change, leader=old.leader)]))
    new = cluster.partition("u")
    assert new.leader_epoch == old.leader_epoch + 1
    assert new.partition_epoch == old.partition_epoch + 2


def test_a_directory_follows_its_replica_when_replicas_change() -> None:
    cluster = a_cluster()
    old = cluster.partition("t")
    home = dict(zip(old.replicas, old.directories, strict=True))
    change = md.PartitionChangeRecord(
        partition_id=0, topic_id=cluster.image.topics["t"].id, replicas=(2, 7, 1)
    )
    cluster.run(Outcome([change]))
    assert cluster.partition("t").directories == (home[2], bytes(16), home[1])


def test_records_of_the_first_kraft_releases_are_understood() -> None:
    cluster = PlayedCluster(metadata_version=7).with_brokers(1)
    epoch = cluster.image.brokers[1].epoch
    cluster.run(Outcome([md.FenceBrokerRecord(id=1, epoch=epoch)]))
    assert cluster.image.brokers[1].fenced
    cluster.run(Outcome([md.UnfenceBrokerRecord(id=1, epoch=epoch)]))
    assert not cluster.image.brokers[1].fenced


@pytest.mark.parametrize(
    ("record", "levels"),
    [
        (
            md.PartitionRecord(topic_id=TOPIC_ID, replicas=(1,), isr=(1,)),
            {7: 0, 16: 0, 17: 1, 22: 1, 23: 2, 30: 2},
        ),
        (md.PartitionChangeRecord(topic_id=TOPIC_ID), {7: 0, 17: 1, 23: 2}),
        (md.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=2, fenced=1), {30: 0}),
        (
            md.BrokerRegistrationChangeRecord(
                broker_id=1, broker_epoch=2, in_controlled_shutdown=1
            ),
            {30: 1},
        ),
        (
            md.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=2, cordoned_log_dirs=()),
            {30: 3},
        ),
        (md.NoOpRecord(), {30: 0}),
    ],
)
def test_a_record_is_written_in_the_version_that_its_readers_know(
    record: MetadataRecord, levels: dict[int, int]
) -> None:
    assert {level: version_of(record, level) for level in levels} == levels


# Metadata transactions (KIP-868)

BEGIN = md.BeginTransactionRecord(name="many")
ONE, TWO = md.TopicRecord(name="1", topic_id=TOPIC_ID), md.NoOpRecord()


def test_records_of_a_transaction_count_when_it_ends() -> None:
    transactions = Transactions()
    assert transactions.effective([TWO, BEGIN, ONE]) == [TWO]
    assert transactions.is_open
    assert transactions.effective([md.EndTransactionRecord(), TWO]) == [ONE, TWO]
    assert not transactions.is_open


def test_records_of_an_aborted_transaction_never_count() -> None:
    transactions = Transactions()
    assert transactions.effective([BEGIN, ONE, md.AbortTransactionRecord(), TWO]) == [TWO]


def test_a_new_leader_aborts_what_its_predecessor_left_open() -> None:
    cluster = PlayedCluster().with_brokers(1)
    cluster.run(Outcome([BEGIN, ONE]))
    cluster.crash()
    assert "1" not in cluster.image.topics
    records = cluster.start()
    assert [type(each) for each in records] == [md.AbortTransactionRecord]
    cluster.create(topic("t"))
    cluster.crash()
    assert list(cluster.image.topics) == ["t"]


def test_a_bootstrap_that_was_cut_begins_again() -> None:
    cluster = PlayedCluster()
    cluster.run(Outcome([BEGIN, md.FeatureLevelRecord(name="metadata.version", feature_level=30)]))
    cluster.crash()
    records = cluster.start()
    assert isinstance(records[0], md.AbortTransactionRecord)
    assert cluster.image.features == cluster.levels
