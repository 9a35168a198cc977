from played_cluster import PlayedCluster, numbered_uuid, request, topic

from pykraft.protocol.errors import ErrorCode
from pykraft.protocol.metadata_records import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)
from pykraft.protocol.versions import ApiKey


def started() -> PlayedCluster:
    cluster = PlayedCluster()
    cluster.start()
    return cluster


def test_a_broker_begins_fenced_with_the_offset_of_its_registration_as_epoch() -> None:
    cluster = started()
    records, reply = cluster.register(1)
    assert isinstance(records[-1], RegisterBrokerRecord)
    assert reply["broker_epoch"] == len(cluster.log) - len(records)
    assert cluster.image.brokers[1].fenced


def test_a_broker_is_unfenced_only_after_it_has_read_its_registration() -> None:
    cluster = started()
    _, reply = cluster.register(1)
    _, behind = cluster.heartbeat(1, current_metadata_offset=reply["broker_epoch"] - 1)
    assert (behind["is_caught_up"], behind["is_fenced"]) == (False, True)
    _, caught_up = cluster.heartbeat(1)
    assert (caught_up["is_caught_up"], caught_up["is_fenced"]) == (True, False)
    assert not cluster.image.brokers[1].fenced


def test_a_broker_that_wants_to_stay_fenced_stays_so() -> None:
    cluster = started()
    cluster.register(1)
    assert cluster.heartbeat(1, want_fence=True)[1]["is_fenced"]
    assert cluster.image.brokers[1].fenced


def test_another_cluster_or_a_living_twin_is_refused() -> None:
    cluster = started()
    _, reply = cluster.register(1, cluster_id="another")
    assert reply["error_code"] == ErrorCode.INCONSISTENT_CLUSTER_ID
    cluster.register(2)
    _, reply = cluster.register(2)
    assert reply["error_code"] == ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_a_twin_is_accepted_once_the_session_of_the_first_has_ended() -> None:
    cluster = started()
    cluster.register(2)
    cluster.now_ms += cluster.config.broker_session_timeout_ms
    assert cluster.register(2)[1]["error_code"] == ErrorCode.NONE


def test_the_same_process_may_register_again_and_keeps_its_epoch() -> None:
    cluster = started()
    _, first = cluster.register(1, incarnation=7)
    cluster.heartbeat(1)
    _, again = cluster.register(1, incarnation=7)
    assert again["broker_epoch"] == first["broker_epoch"]
    assert not cluster.image.brokers[1].fenced


def test_a_broker_that_lacks_a_finalized_feature_is_refused() -> None:
    cluster = started()
    _, reply = cluster.register(1, features=[])
    assert reply["error_code"] == ErrorCode.UNSUPPORTED_VERSION


def test_directories_must_be_named_and_belong_to_one_broker() -> None:
    cluster = started()
    for directories in ([], [numbered_uuid(900)] * 2, [numbered_uuid(1)]):
        _, reply = cluster.register(1, log_dirs=directories)
        assert reply["error_code"] == ErrorCode.INVALID_REGISTRATION
    cluster.register(1)
    _, reply = cluster.register(2, log_dirs=cluster.image.brokers[1].log_dirs)
    assert reply["error_code"] == ErrorCode.INVALID_REGISTRATION


def test_a_heartbeat_of_an_old_epoch_is_refused() -> None:
    cluster = PlayedCluster().with_brokers(1)
    _, reply = cluster.heartbeat(1, broker_epoch=3)
    assert reply["error_code"] == ErrorCode.STALE_BROKER_EPOCH
    assert cluster.heartbeat(9)[1]["error_code"] == ErrorCode.STALE_BROKER_EPOCH


def test_the_second_of_two_may_leave_when_the_first_has_read_that_it_leads_no_more() -> None:
    cluster = PlayedCluster().with_brokers(1, 2)
    cluster.create(topic("t", assignments={0: [2, 1]}))
    cluster.heartbeat(2, want_shut_down=True)
    assert cluster.partition("t").leader == 1
    assert not cluster.heartbeat(2, want_shut_down=True)[1]["should_shut_down"]
    cluster.heartbeat(1)
    assert cluster.heartbeat(2, want_shut_down=True)[1]["should_shut_down"]
    assert cluster.image.brokers[2].fenced


def test_silent_brokers_are_fenced_but_never_the_node_that_runs_the_controller() -> None:
    cluster = PlayedCluster().with_brokers(1, 2, 3)
    cluster.now_ms += cluster.config.broker_session_timeout_ms - 1
    cluster.heartbeat(3)
    cluster.now_ms += 1
    cluster.run(cluster.controller.fence_silent_brokers(cluster.now_ms))
    fenced = {each.id: each.fenced for each in cluster.image.brokers.values()}
    assert fenced == {1: False, 2: True, 3: False}


def test_a_new_controller_gives_every_broker_a_full_session() -> None:
    cluster = PlayedCluster().with_brokers(1, 2)
    cluster.now_ms += 10 * cluster.config.broker_session_timeout_ms
    cluster.crash()
    cluster.controller.brokers.expect_heartbeats(cluster.now_ms)
    assert cluster.controller.fence_silent_brokers(cluster.now_ms + 1).records == []
    late_ms = cluster.now_ms + cluster.config.broker_session_timeout_ms
    assert cluster.controller.fence_silent_brokers(late_ms).records != []


def test_a_lost_directory_costs_its_partitions_their_place_in_the_isr() -> None:
    cluster = PlayedCluster().with_brokers(1, 2)
    cluster.create(topic("t", assignments={0: [1, 2]}))
    lost = cluster.image.brokers[1].log_dirs
    records, _ = cluster.heartbeat(1, offline_log_dirs=list(lost))
    assert cluster.partition("t").isr == (2,)
    assert cluster.partition("t").leader == 2
    assert isinstance(records[-1], BrokerRegistrationChangeRecord)


def test_an_unregistered_broker_is_forgotten() -> None:
    cluster = PlayedCluster().with_brokers(1, 2)
    body = request(ApiKey.UNREGISTER_BROKER, broker_id=2)
    _, reply = cluster.run(cluster.controller.unregister_broker(body))
    assert reply["error_code"] == ErrorCode.NONE
    assert list(cluster.image.brokers) == [1]
    _, reply = cluster.run(cluster.controller.unregister_broker(body))
    assert reply["error_code"] == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_producer_ids_come_in_blocks_that_do_not_overlap() -> None:
    cluster = PlayedCluster().with_brokers(1)
    epoch = cluster.image.brokers[1].epoch
    starts = []
    for _ in range(3):
        _, reply = cluster.run(cluster.controller.allocate_producer_ids(1, epoch))
        starts.append((reply["producer_id_start"], reply["producer_id_len"]))
        cluster.crash()
    assert starts == [(0, 1000), (1000, 1000), (2000, 1000)]
    _, reply = cluster.run(cluster.controller.allocate_producer_ids(1, epoch - 1))
    assert reply["error_code"] == ErrorCode.STALE_BROKER_EPOCH


def test_an_epoch_grows_with_every_start() -> None:
    cluster = PlayedCluster().with_brokers(1)
    epochs = [cluster.image.brokers[1].epoch]
    for _ in range(3):
        cluster.crash()
        cluster.run(cluster.controller.fence_dead_broker(1))
        cluster.register(1)
        epochs.append(cluster.image.brokers[1].epoch)
    assert epochs == sorted(set(epochs))
