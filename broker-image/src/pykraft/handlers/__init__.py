"""Which function answers which API: the explicit table.

Produce and Fetch are not in it. They read their frames themselves; see runtime/dispatch.py.
"""

from collections.abc import Callable, Mapping
from typing import Any

from pykraft.handlers.api_versions import handle_api_versions
from pykraft.handlers.cluster import handle_describe_cluster, handle_describe_topic_partitions
from pykraft.handlers.configs import (
    handle_alter_configs,
    handle_describe_configs,
    handle_incremental_alter_configs,
    handle_list_config_resources,
)
from pykraft.handlers.context import Broker, RequestContext
from pykraft.handlers.delete_records import handle_delete_records
from pykraft.handlers.list_offsets import handle_list_offsets, handle_offset_for_leader_epoch
from pykraft.handlers.log_dirs import handle_describe_log_dirs
from pykraft.handlers.metadata import handle_metadata
from pykraft.handlers.producers import handle_describe_producers, handle_init_producer_id
from pykraft.handlers.quorum import handle_describe_quorum, handle_update_features
from pykraft.handlers.topics import (
    handle_create_partitions,
    handle_create_topics,
    handle_delete_topics,
)
from pykraft.protocol.decoding import Message
from pykraft.protocol.versions import ApiKey

# Returns the body of the answer; or None, and then the context was or will be answered by itself.
Handler = Callable[[Broker, RequestContext, Message], Mapping[str, Any] | None]

HANDLERS: dict[int, Handler] = {
    ApiKey.LIST_OFFSETS: handle_list_offsets,
    ApiKey.METADATA: handle_metadata,
    ApiKey.API_VERSIONS: handle_api_versions,
    ApiKey.CREATE_TOPICS: handle_create_topics,
    ApiKey.DELETE_TOPICS: handle_delete_topics,
    ApiKey.DELETE_RECORDS: handle_delete_records,
    ApiKey.INIT_PRODUCER_ID: handle_init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: handle_offset_for_leader_epoch,
    ApiKey.DESCRIBE_CONFIGS: handle_describe_configs,
    ApiKey.ALTER_CONFIGS: handle_alter_configs,
    ApiKey.DESCRIBE_LOG_DIRS: handle_describe_log_dirs,
    ApiKey.CREATE_PARTITIONS: handle_create_partitions,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: handle_incremental_alter_configs,
    ApiKey.DESCRIBE_QUORUM: handle_describe_quorum,
    ApiKey.UPDATE_FEATURES: handle_update_features,
    ApiKey.DESCRIBE_CLUSTER: handle_describe_cluster,
    ApiKey.DESCRIBE_PRODUCERS: handle_describe_producers,
    ApiKey.LIST_CONFIG_RESOURCES: handle_list_config_resources,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: handle_describe_topic_partitions,
}
