"""Gateways of a run, with the product's code for Produce and for the ends of partitions, and the Kafka clients that use them."""
