"""What scenarios/controller/configs.txt does not tell: the older request, and both together."""

from typing import Any

from played_cluster import PlayedCluster, request, topic

from pykraft.configs import Operation
from pykraft.protocol.errors import ErrorCode
from pykraft.protocol.versions import ApiKey

Resource = tuple[int, str, dict[str, str | None]]


def replace_all(cluster: PlayedCluster, *resources: Resource, validate_only: bool = False) -> Any:
    body = request(
        ApiKey.ALTER_CONFIGS,
        resources=[
            {
                "resource_type": kind,
                "resource_name": name,
                "configs": [{"name": key, "value": value} for key, value in configs.items()],
            }
            for kind, name, configs in resources
        ],
        validate_only=validate_only,
    )
    _, reply = cluster.run(cluster.controller.alter_configs(body, 1))
    return [(each["error_code"], each["error_message"]) for each in reply["responses"]]


def increment(cluster: PlayedCluster, *resources: Resource, operation: int = 0, **more: Any) -> Any:
    body = request(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        resources=[
            {
                "resource_type": kind,
                "resource_name": name,
                "configs": [
                    {"name": key, "config_operation": operation, "value": value}
                    for key, value in configs.items()
                ],
            }
            for kind, name, configs in resources
        ],
        **{"validate_only": False, **more},
    )
    _, reply = cluster.run(cluster.controller.incremental_alter_configs(body, 1))
    return [each["error_code"] for each in reply["responses"]]


def a_cluster() -> PlayedCluster:
    cluster = PlayedCluster().with_brokers(1)
    cluster.create(topic("t", configs={"retention.ms": "1", "segment.ms": "2"}), topic("u"))
    return cluster


def test_the_older_request_deletes_what_it_does_not_name() -> None:
    cluster = a_cluster()
    assert replace_all(cluster, (2, "t", {"segment.ms": "3"})) == [(ErrorCode.NONE, None)]
    assert cluster.image.configs[2, "t"] == {"segment.ms": "3"}
    replace_all(cluster, (2, "t", {}))
    assert (2, "t") not in cluster.image.configs


def test_the_older_request_cannot_delete_the_clusters_min_isr_by_leaving_it_out() -> None:
    cluster = a_cluster()
    ((code, message),) = replace_all(cluster, (4, "", {}))
    assert code == ErrorCode.INVALID_CONFIG
    assert "cannot be removed while ELR is enabled" in message
    assert cluster.image.configs[4, ""] == {"min.insync.replicas": "1"}


def test_the_older_request_knows_no_loggers() -> None:
    ((code, message),) = replace_all(a_cluster(), (8, "1", {"kafka": "INFO"}))
    assert (code, message) == (ErrorCode.INVALID_REQUEST, "Unknown resource type 8")


def test_a_null_is_no_value() -> None:
    ((code, message),) = replace_all(a_cluster(), (2, "t", {"segment.ms": None}))
    assert (code, message) == (
        ErrorCode.INVALID_REQUEST,
        "Null value not supported for : segment.ms",
    )


def test_resources_succeed_and_fail_on_their_own() -> None:
    cluster = a_cluster()
    codes = increment(
        cluster, (2, "t", {"retention.ms": "5", "nothing": "1"}), (2, "u", {"retention.ms": "6"})
    )
    assert codes == [ErrorCode.INVALID_CONFIG, ErrorCode.NONE]
    assert cluster.image.configs[2, "t"]["retention.ms"] == "1"
    assert cluster.image.configs[2, "u"]["retention.ms"] == "6"


def test_a_resource_given_twice_fails_twice() -> None:
    cluster = a_cluster()
    change: Resource = (2, "t", {"retention.ms": "5"})
    assert increment(cluster, change, change) == [ErrorCode.INVALID_REQUEST] * 2
    assert cluster.image.configs[2, "t"]["retention.ms"] == "1"


def test_validate_only_changes_nothing() -> None:
    cluster = a_cluster()
    change: Resource = (2, "t", {"retention.ms": "5"})
    assert increment(cluster, change, validate_only=True) == [ErrorCode.NONE]
    assert replace_all(cluster, change, validate_only=True) == [(ErrorCode.NONE, None)]
    assert cluster.image.configs[2, "t"]["retention.ms"] == "1"


def test_deleting_what_nobody_knows_is_no_error() -> None:
    cluster = a_cluster()
    before = len(cluster.log)
    codes = increment(cluster, (2, "t", {"nothing": None}), operation=Operation.DELETE)
    assert codes == [ErrorCode.NONE]
    assert len(cluster.log) == before


def test_a_topics_min_isr_counts_before_the_clusters() -> None:
    cluster = a_cluster()
    increment(cluster, (4, "", {"min.insync.replicas": "2"}))
    increment(cluster, (2, "u", {"min.insync.replicas": "3"}))
    assert cluster.controller.configs.min_isr_of("t") == 2
    assert cluster.controller.configs.min_isr_of("u") == 3


def test_an_unclean_election_is_allowed_by_the_topic() -> None:
    cluster = a_cluster()
    increment(cluster, (2, "u", {"unclean.leader.election.enable": "true"}))
    assert not cluster.controller.configs.unclean_allowed("t")
    assert cluster.controller.configs.unclean_allowed("u")
