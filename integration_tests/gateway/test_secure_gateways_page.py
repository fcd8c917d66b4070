"""docs/secure-gateways.md, executed as it is written, after docs/secure-nodes.md: Kafka's own tools, by a gateway with logins and ACLs."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import AclOperation

from cli.dev.kafka import BrokerRuntime
from cli.dev.ports import lease_block
from cli.dev.process import start_child
from integration_tests.secured_kafka import SecuredKafka
from integration_tests.test_secure_nodes_page import ONE_BROKER, ROOT, Nodes, Page, part, prepared_page, settings, start
from integration_tests.waiting import WAIT_S, wait_until

PAGE: Final = ROOT / "docs/secure-gateways.md"
RELAYED_BROKERS: Final = 3


class GatewayPage(Page):
    """The page, beside that of nodes, whose folder and addresses it shares."""

    def __init__(self, folder: Path, kafka: str, beside: Page) -> None:
        super().__init__(folder, kafka, file=PAGE)
        self.environment = {key: value for key, value in self.environment.items() if key not in ONE_BROKER}  # nodes' settings
        self._beside = beside
        self._block = lease_block(1 + RELAYED_BROKERS)

    def address(self, node: int, port: int) -> str:
        """See `Page`."""
        return self._beside.address(node, port)

    def close(self) -> None:
        """Let go of the ports."""
        for lease in self._block:
            lease.close()

    def here(self, text: str, node: int = 1) -> str:
        """See `Page`; the host `gateway-1` is on this machine, too."""
        listener = f"localhost:{self._block[0].port}"
        text = text.replace("DNS:gateway-1", "DNS:localhost").replace("gateway-1:9092", listener).replace("0.0.0.0:9092", listener)
        return super().here(text, node)


@pytest.fixture(scope="module")
def pages(broker_runtime: BrokerRuntime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Page, GatewayPage]]:
    """A Kafka of its own: the page gives rights on all of its topics."""
    folder = tmp_path_factory.mktemp("pages")
    with SecuredKafka(folder / "kafka", broker_runtime) as kafka:
        nodes = prepared_page(kafka, folder)
        gateways = GatewayPage(folder, kafka.address("LOGIN"), nodes)
        yield nodes, gateways
        gateways.close()
        nodes.close()


@pytest.mark.long
def test_the_page_secures_gateways_as_it_is_written(pages: tuple[Page, GatewayPage]) -> None:
    nodes_page, page = pages
    for name, blocks in page.parts.items():
        if name[:2] in {"1.", "2.", "3.", "4."}:
            for kind, text in blocks:
                if kind == "properties":
                    page.write(text)
                else:
                    page.run(text)
    [_, acls] = (page.folder / "acls-of-nodes.properties").read_text(encoding="utf-8").splitlines()
    nodes = Nodes(nodes_page)
    config = page.folder / "gateway-1.properties"
    config.write_text(page.here(config.read_text(encoding="utf-8")), encoding="utf-8")
    log = page.folder / "gateway-1.log"
    [script] = part(page, "5.")
    command = ["/bin/bash", "-ec", page.here(script.replace("diskless gateway run", "exec diskless gateway run"))]
    try:
        for node in (1, 2):
            start(nodes_page, nodes, node, settings(nodes_page, node) | dict([acls.split("=", 1)]))
        gateway = start_child(command, marker=str(page.folder), log=log, environment=page.environment)
        wait_until(lambda: "serving gateway=1001" in log.read_text() or not gateway.is_running(), "the gateway to serve")
        assert gateway.is_running(), log.read_text()
        said = [page.run(text) for text in part(page, "6.")]
        gateway.send(signal.SIGTERM)
        assert gateway.wait(WAIT_S) == 0
    finally:
        nodes.close()
    assert "one\ntwo\nthree\n" in said[0]
    assert "no login, no answer\n" in said[1]
    assert "no right, no topic\n" in said[1]
    assert "user app by SCRAM-SHA-512" in log.read_text()
    confidential = ("gateway-1.key", "gateway.env", "app.properties")
    assert [name for name in confidential if (page.folder / name).stat().st_mode & 0o077] == []


def test_the_rights_of_the_page_are_those_of_the_tests() -> None:
    """What gateways have in the tests of ACLs is what the page's commands give them, and no more."""
    from integration_tests.gateway.secured import MIGRATED_RIGHTS, OWN_RIGHTS

    text = PAGE.read_text(encoding="utf-8")
    given = [line for line in text.splitlines() if line.startswith("kafka-acls.sh") and "User:diskless-gateway" in line]
    names = {one: one.name.title().replace("_", "") for one in AclOperation}
    expected = [*(right.operations for right in OWN_RIGHTS), MIGRATED_RIGHTS]
    assert [[word for word in line.split() if word in names.values()] for line in given] == [
        [names[one] for one in each] for each in expected
    ]
    assert "--topic orders " in given[-1]
