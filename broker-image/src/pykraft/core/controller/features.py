"""Features and their levels: what we can do, what is finalized, and UpdateFeatures.

Levels are those of Kafka 4.3, since a log directory moves between Kafka and pykraft.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pykraft.core.controller.image import ELR_VERSION, METADATA_VERSION, MetadataImage
from pykraft.core.controller.outcome import ControllerConfig, Outcome
from pykraft.core.controller.records import (
    MV_4_0_IV1_ELR,
    config_record,
    feature_record,
)
from pykraft.protocol.errors import ErrorCode, KafkaError
from pykraft.protocol.metadata_records import FeatureLevelRecord, MetadataRecord

KRAFT_VERSION = "kraft.version"
MIN_ISR = "min.insync.replicas"
BROKER = 4

SUPPORTED: dict[str, tuple[int, int]] = {
    "group.version": (0, 1),
    KRAFT_VERSION: (0, 1),
    METADATA_VERSION: (7, 30),
    "share.version": (0, 1),
    "streams.version": (0, 1),
    "transaction.version": (0, 2),
    ELR_VERSION: (0, 1),
}

# The levels of metadata.version by their names in Kafka's releases.
RELEASES: dict[str, int] = {
    "3.3-IV3": 7, "3.4-IV0": 8, "3.5-IV0": 9, "3.5-IV1": 10, "3.5-IV2": 11, "3.6-IV0": 12,
    "3.6-IV1": 13, "3.6-IV2": 14, "3.7-IV0": 15, "3.7-IV1": 16, "3.7-IV2": 17, "3.7-IV3": 18,
    "3.7-IV4": 19, "3.8-IV0": 20, "3.9-IV0": 21, "4.0-IV0": 22, "4.0-IV1": 23, "4.0-IV2": 24,
    "4.0-IV3": 25, "4.1-IV0": 26, "4.1-IV1": 27, "4.2-IV0": 28, "4.2-IV1": 29, "4.3-IV0": 30,
}  # fmt: skip

# From which metadata.version on a new cluster begins with a level of a feature.
_BEGINS_WITH: dict[str, dict[int, int]] = {
    ELR_VERSION: {1: 26},
    "group.version": {1: 22},
    "share.version": {1: 28},
    "streams.version": {1: 29},
    "transaction.version": {2: 24},
}
# The least metadata.version that a level can live with.
_NEEDS: dict[tuple[str, int], int] = {(ELR_VERSION, 1): MV_4_0_IV1_ELR}
# Levels of metadata.version that added nothing to the records: only these may be left downwards.
_LEVELS_WITHOUT_RECORDS = frozenset((9, 10, 12, 16, 18, 19, 20, 21, 22, 24, 25, 26, 27, 28, 29))

UPGRADE = 1
SAFE_DOWNGRADE = 2
UNSAFE_DOWNGRADE = 3


def default_levels(metadata_version: int) -> dict[str, int]:
    """What `format` finalizes for a metadata.version, except kraft.version."""
    levels = {METADATA_VERSION: metadata_version}
    for name, begins in _BEGINS_WITH.items():
        level = max((lv for lv, first in begins.items() if first <= metadata_version), default=0)
        if level:
            levels[name] = level
    return levels


def default_bootstrap() -> list[MetadataRecord]:
    newest = SUPPORTED[METADATA_VERSION][1]
    return [feature_record(*item) for item in default_levels(newest).items()]


def check_levels(levels: Mapping[str, int]) -> None:
    """Raises KafkaError unless we support these levels together."""
    for name, level in levels.items():
        low, high = SUPPORTED.get(name, (0, 0))
        if not low <= level <= high and not (level == 0 and name != METADATA_VERSION):
            message = f"feature {name} at level {level}, supported are {low} to {high}"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, message)
        _check_needs(name, level, levels.get(METADATA_VERSION, 0))


def _check_needs(name: str, level: int, metadata_version: int) -> None:
    least = _NEEDS.get((name, level), 0)
    if metadata_version < least:
        message = (
            f"{name} could not be set to {level} because it depends on "
            f"{METADATA_VERSION} level {least}"
        )
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, message)


def elr_safety_records(image: MetadataImage, config: ControllerConfig) -> list[MetadataRecord]:
    """With ELR, min.insync.replicas is one value for the whole cluster, and it is written down.

    Two brokers with different files would otherwise disagree on when a replica leaves the ELR.
    """
    records: list[MetadataRecord] = []
    if MIN_ISR not in image.configs.get((BROKER, ""), {}):
        records.append(config_record(BROKER, "", MIN_ISR, str(config.min_insync_replicas)))
    for (kind, name), values in image.configs.items():
        if kind == BROKER and name and MIN_ISR in values:
            records.append(config_record(BROKER, name, MIN_ISR, None))
    return records


@dataclass(slots=True)
class FeatureControl:
    image: MetadataImage
    config: ControllerConfig
    # kraft.version is raft's own; the controller only knows that it cannot go back.
    kraft_version: int = 1

    def update_features(self, request: Any) -> Outcome:
        records: list[MetadataRecord] = []
        try:
            for update in request.feature_updates:
                records += self._update(update)
        except KafkaError as error:
            message = (
                "The update failed for all features since the following feature had an error: "
                f"{error.message}"
            )
            return Outcome(
                reply={"error_code": error.code, "error_message": message, "results": []}
            )
        results = [
            {"feature": each.feature, "error_code": ErrorCode.NONE, "error_message": "NONE"}
            for each in request.feature_updates
        ]
        reply = {"error_code": ErrorCode.NONE, "error_message": None, "results": results}
        return Outcome([] if request.validate_only else records, reply)

    def _update(self, update: Any) -> list[MetadataRecord]:
        name, level = update.feature, update.max_version_level
        kind = _upgrade_type(update)
        if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
            raise _refused(name, level, "The controller does not support the given upgrade type.")
        if level < 0:
            raise _refused(name, level, "A feature version cannot be less than 0.")
        self._check_supported(name, level)
        if name == KRAFT_VERSION:
            return self._update_kraft(level)
        current = self.image.features.get(name, 0)
        if level < current and kind == UPGRADE:
            raise _refused(
                name,
                level,
                "Can't downgrade the version of this feature without setting the upgrade type to "
                "either safe or unsafe downgrade.",
            )
        if name == METADATA_VERSION:
            self._check_metadata_version(current, level, kind)
        else:
            _check_needs(name, level, self.image.metadata_version)
        records: list[MetadataRecord] = []
        if name == ELR_VERSION and level > 0:
            records += elr_safety_records(self.image, self.config)
        return [*records, feature_record(name, level)]

    def _check_supported(self, name: str, level: int) -> None:
        nodes = [(f"Local controller {self.config.node_id}", SUPPORTED)]
        nodes += [(f"Broker {b.id}", b.features) for _, b in sorted(self.image.brokers.items())]
        for who, supported in nodes:
            if name not in supported and level > 0:
                raise _refused(name, level, f"{who} does not support this feature.")
            low, high = supported.get(name, (0, 0))
            if not low <= level <= high:
                raise _refused(name, level, f"{who} only supports versions {low}-{high}")

    def _update_kraft(self, level: int) -> list[MetadataRecord]:
        if level < self.kraft_version:
            message = "Can't downgrade the version of this feature."
            raise _refused(KRAFT_VERSION, level, message)
        if level > self.kraft_version:
            # A static quorum becomes dynamic with AddRaftVoter and its voters' directory ids.
            message = "The upgrade of a static quorum is not supported."
            raise _refused(KRAFT_VERSION, level, message)
        return []

    def _check_metadata_version(self, current: int, level: int, kind: int) -> None:
        if level >= current:
            return
        lossy = any(step not in _LEVELS_WITHOUT_RECORDS for step in range(level + 1, current + 1))
        if not lossy:
            return
        why = (
            "Refusing to perform the requested downgrade because it might delete metadata "
            "information."
            if kind == SAFE_DOWNGRADE
            else "Unsafe metadata downgrade is not supported in this version."
        )
        message = f"Unsupported metadata.version downgrade from {current} to {level}. {why}"
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, message)


def _upgrade_type(update: Any) -> int:
    # Version 0 of the request knows only whether a downgrade is allowed.
    return SAFE_DOWNGRADE if getattr(update, "allow_downgrade", False) else int(update.upgrade_type)


def _refused(name: str, level: int, why: str) -> KafkaError:
    message = f"Invalid update version {level} for feature {name}. {why}"
    return KafkaError(ErrorCode.INVALID_UPDATE_VERSION, message)


def bootstrap_levels(records: Iterable[MetadataRecord]) -> dict[str, int]:
    return {r.name: r.feature_level for r in records if isinstance(r, FeatureLevelRecord)}
