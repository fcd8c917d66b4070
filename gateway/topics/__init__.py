"""Diskless topics with Kafka's own tools: the list of them, their shadows in Kafka, and the requests that create, delete and alter them.

Invariants: a shadow and the coordinators' topic are joined by id, never by name. A topic is created in Kafka first and at the coordinators
second, and deleted in the opposite order; so whatever a crash leaves half done is a shadow without records (`max.message.bytes=0`), which
repeating the request finishes. What the client may do is judged by Kafka on the client's own connection, before anything is changed. All
settings of a diskless topic are the coordinators'; its shadow has `max.message.bytes=0` and nothing else.
"""
