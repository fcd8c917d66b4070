"""A member of a group of Kafka over connections of our own, in Kafka's classic protocol: it tells the others what it likes, and assigns."""
