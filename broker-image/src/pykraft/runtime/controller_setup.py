"""Builds a node's controller from its settings: the metadata log, the quorum, the times."""

import random
from collections.abc import Callable

from pykraft.configs import BROKER_CONFIGS
from pykraft.configs.resolution import broker_value
from pykraft.core.controller.controller import Controller, ControllerConfig
from pykraft.core.raft.metadata_log import MetadataLogConfig
from pykraft.core.raft.snapshot import SnapshotId, decode_snapshot
from pykraft.core.raft.voters import Voter, VoterAddress, VoterSet
from pykraft.core.storage import StorageError
from pykraft.handlers.context import World
from pykraft.protocol.metadata_records import MetadataRecord
from pykraft.runtime.controller_driver import ControllerDriver, ControllerTimes
from pykraft.runtime.disk import RealDisk
from pykraft.runtime.format import BOOTSTRAP_FILE
from pykraft.runtime.identity import NodeIdentity, new_uuid
from pykraft.runtime.raft_driver import RaftConfig, RaftDriver
from pykraft.settings import Settings


def make_controller(
    settings: Settings,
    identity: NodeIdentity,
    world: World,
    on_fatal: Callable[[StorageError], None],
) -> ControllerDriver:
    disk = RealDisk(settings.metadata_log_dir)
    config = RaftConfig(
        settings.node_id,
        identity.directory_ids[settings.metadata_log_dir],
        _static_voters(settings),
        _log_config(settings),
    )
    raft = RaftDriver(disk, world, config, on_fatal=on_fatal)
    controller = Controller(
        _controller_config(settings, identity.cluster_id), new_uuid, random.SystemRandom()
    )
    times = ControllerTimes(
        settings.metadata_max_idle_interval_ms,
        settings.metadata_log_max_record_bytes_between_snapshots,
        settings.metadata_log_max_snapshot_interval_ms,
    )
    return ControllerDriver(raft, controller, world, times, on_fatal=on_fatal)


def _static_voters(settings: Settings) -> VoterSet:
    names = [each.name for each in settings.addresses.controller_listeners]
    return VoterSet(
        tuple(
            Voter(voter.id, addresses=(VoterAddress(names[0], voter.host, voter.port),))
            for voter in settings.quorum_voters
        )
    )


def _log_config(settings: Settings) -> MetadataLogConfig:
    segment_bytes = settings.internal_metadata_log_segment_bytes
    return MetadataLogConfig(
        segment_bytes=segment_bytes or settings.metadata_log_segment_bytes,
        segment_ms=settings.metadata_log_segment_ms,
        retention_bytes=settings.metadata_max_retention_bytes,
        retention_ms=settings.metadata_max_retention_ms,
        batch_bytes_max=settings.internal_metadata_max_batch_size_in_bytes,
    )


def _controller_config(settings: Settings, cluster_id: str) -> ControllerConfig:
    static = {key: text for key, text in settings.static.items() if key in BROKER_CONFIGS}
    min_isr = broker_value("min.insync.replicas", static)
    unclean = broker_value("unclean.leader.election.enable", static)
    assert isinstance(min_isr, int)
    return ControllerConfig(
        node_id=settings.node_id,
        cluster_id=cluster_id,
        static_configs=settings.static,
        num_partitions=settings.num_partitions,
        default_replication_factor=settings.default_replication_factor,
        min_insync_replicas=min_isr,
        unclean_leader_election=bool(unclean),
        delete_topic_enable=settings.delete_topic_enable,
        broker_session_timeout_ms=settings.broker_session_timeout_ms,
    )


def read_bootstrap(settings: Settings) -> list[MetadataRecord]:
    """What `format` (ours or Kafka's) laid down for the first controller of a new cluster."""
    disk = RealDisk(settings.metadata_log_dir)
    try:
        data = disk.read(BOOTSTRAP_FILE)
    except FileNotFoundError:
        return []
    return list(decode_snapshot(SnapshotId(0, 0), data).records)
