"""ApiVersions, v0 to v4.

Behaviour: announces what this broker serves and nothing else. A version that we do not know is
answered in the format of v0 with UNSUPPORTED_VERSION and the range of this API (KIP-511), so that
the client can ask again. From v3 on the client's name and version are checked, and the cluster's
features are told: those that v3 cannot express (supported from level 0, KIP-1022) only from v4 on.
Absent: v5, which compares cluster and node id and which Kafka 4.3 does not know either.
"""

import re
from collections.abc import Mapping
from typing import Any

from pykraft.core.controller.features import KRAFT_VERSION, SUPPORTED
from pykraft.handlers.context import Broker, RequestContext
from pykraft.protocol.decoding import Message
from pykraft.protocol.encoding import encode_response
from pykraft.protocol.errors import ErrorCode
from pykraft.protocol.versions import (
    ApiKey,
    api_versions_body,
    unsupported_api_versions_body,
)

NAMES_SOFTWARE_FROM_VERSION = 3

# The rule of KIP-511 for the client's software name and version.
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle_api_versions(
    broker: Broker, context: RequestContext, request: Message
) -> Mapping[str, Any]:
    if context.version >= NAMES_SOFTWARE_FROM_VERSION and not _is_valid(request):
        context.failed(ErrorCode.INVALID_REQUEST)
        return {"error_code": ErrorCode.INVALID_REQUEST}
    return api_versions_body(
        context.version,
        supported_features=SUPPORTED,
        finalized_features=_finalized(broker),
        finalized_features_epoch=broker.image.offset,
    )


def _is_valid(request: Message) -> bool:
    texts = (request.client_software_name, request.client_software_version)
    return all(_SOFTWARE.fullmatch(text) for text in texts)


def _finalized(broker: Broker) -> Mapping[str, int]:
    if broker.settings.quorum_voters:
        return broker.image.features
    # Voters in the metadata log (KIP-853) mean level 1; no metadata record says so.
    return {**broker.image.features, KRAFT_VERSION: 1}


def answer_unsupported_version(broker: Broker, context: RequestContext) -> None:
    """The body is of v0, whatever was asked: it is the one that every client can read."""
    context.failed(ErrorCode.UNSUPPORTED_VERSION)
    body = unsupported_api_versions_body()
    context.reply_parts((encode_response(ApiKey.API_VERSIONS, 0, body),))
