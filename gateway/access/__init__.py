"""Who a client is, what it may do, where it is, and how much it may take.

Invariants:
- The cluster alone decides: a login is passed to the client's own upstream connection, and a right is what the cluster says on that
  connection, or on another with the same login. This process knows no user and no secret of one. The name of a principal is for quotas and logs, never for rights.
- On a cluster with logins nothing but ApiVersions and a login is served before the cluster has accepted the login, and nothing else after
  the session's end until the client has logged in again.
- A right that is older than `gateway.rights.ttl.ms` is asked for again before anything is served by it.
- What strangers can fill is bounded: names, topics of a session, principals, connections of an address.
"""
