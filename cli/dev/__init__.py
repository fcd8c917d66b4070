"""The surroundings of the coordinator on a developer's machine: Java, jars, a real Kafka, and processes that never outlive us.

Owns nothing of the product: no module outside `cli` imports it. Works on Linux and macOS; Docker is not needed.
"""
