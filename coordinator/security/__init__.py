"""Principals, logins and rules: the identity of a client and its rights. No sockets; files are read only where a module says so."""
