"""The files of a local cluster."""

import pytest

from pykraft.local.layout import node_files, write_config
from pykraft.local.spec import ClusterSpec, SpecError
from pykraft.settings import Listener, Settings

DEMO = ClusterSpec(name="demo", config={"num.partitions": "3"})


def test_a_node_gets_a_config_that_it_can_start_with(tmp_path):
    files = node_files(tmp_path)
    write_config(DEMO, files, 9092)
    settings = Settings.load(files.config)
    assert (settings.is_broker, settings.is_controller, settings.num_partitions) == (True, True, 3)
    assert settings.log_dirs == (str(tmp_path / "node-1" / "data"),)
    assert settings.addresses.broker_listeners == (Listener("PLAINTEXT", "127.0.0.1", 9092),)
    assert settings.addresses.controller_listeners == (Listener("CONTROLLER", "127.0.0.1", 9093),)
    assert settings.warnings == ()


def test_the_controllers_port_stays_when_the_clients_port_changes(tmp_path):
    files = node_files(tmp_path)
    write_config(DEMO, files, 9092)
    write_config(DEMO, files, 19092)
    addresses = Settings.load(files.config).addresses
    assert addresses.broker_listeners[0].port == 19092
    assert addresses.controller_listeners[0].port == 9093


def test_any_free_port_for_clients_means_free_ports_for_all(tmp_path):
    files = node_files(tmp_path)
    write_config(DEMO, files, 0)
    settings = Settings.load(files.config)
    assert settings.addresses.broker_listeners[0].port == 0
    assert settings.addresses.controller_listeners[0].port > 1024
    assert settings.pykraft_http_port == 0


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"listeners": "PLAINTEXT://:1"}, "spec.config.listeners: is set by `pykraft up` itself"),
        ({"num.partitions": "0"}, "spec.config: num.partitions=0: Value must be at least 1"),
    ],
)
def test_a_cluster_config_that_cannot_be_is_refused_and_nothing_is_written(
    tmp_path, config, message
):
    files = node_files(tmp_path)
    with pytest.raises(SpecError) as caught:
        write_config(ClusterSpec(name="demo", config=config), files, 9092)
    assert message in str(caught.value)
    assert not files.config.exists()


def test_a_log_directory_is_formatted_once_it_has_its_identity(tmp_path):
    files = node_files(tmp_path)
    write_config(DEMO, files, 9092)
    assert not files.is_formatted
    (files.data / "meta.properties").write_text("")
    assert files.is_formatted
