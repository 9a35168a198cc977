import pytest

from pykraft.core.log.config import LogConfig
from pykraft.records.compression import CODECS


def test_a_config_is_made_of_kafkas_names() -> None:
    config = LogConfig.from_configs(
        {
            "segment.bytes": 1000,
            "cleanup.policy": "compact, delete",
            "retention.ms": -1,
            "min.insync.replicas": 2,
            "remote.storage.enable": True,
        }
    )
    assert (config.segment_bytes, config.retention_ms, config.min_insync_replicas) == (1000, -1, 2)
    assert config.compacts
    assert config.deletes


@pytest.mark.parametrize("policy", [["compact"], ("compact",), frozenset({"compact"}), "compact"])
def test_a_policy_may_come_as_list_or_text(policy: object) -> None:
    config = LogConfig.from_configs({"cleanup.policy": policy})
    assert config.cleanup_policy == frozenset({"compact"})
    assert not config.deletes


@pytest.mark.parametrize(
    ("name", "codec"), [("producer", None), ("uncompressed", 0), *CODECS.items()]
)
def test_the_compression_type_names_a_codec(name: str, codec: int | None) -> None:
    assert LogConfig(compression_type=name).target_codec == codec


def test_each_codec_has_its_own_level() -> None:
    config = LogConfig(compression_type="zstd", compression_zstd_level=11)
    assert config.target_level == 11
    assert LogConfig(compression_type="gzip").target_level == -1
