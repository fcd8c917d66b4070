"""The entry point of the image: writes server.properties, formats the data folder, and becomes the broker."""

import os
import subprocess

FILE = "/tmp/server.properties"
JAVA = ["/opt/java/bin/java", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
KAFKA = ["-Dlog4j2.configurationFile=/opt/kafka/log4j2.properties", "-cp", "/opt/kafka/libs/*"]

properties = {key.removeprefix("KAFKA_").replace("_", ".").lower(): value for key, value in os.environ.items() if key.startswith("KAFKA_")}
with open(FILE, "w") as file:
    file.writelines(f"{key}={value}\n" for key, value in properties.items())
tool = ["kafka.tools.StorageTool", "format", "-t", os.environ["CLUSTER_ID"], "-c", FILE]
subprocess.run([*JAVA, *KAFKA, *tool], check=True)
os.execv(JAVA[0], [*JAVA, *KAFKA, "kafka.Kafka", FILE])
