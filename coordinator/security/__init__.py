"""Who a client is and what it may do: principals, logins, rules. No sockets; files are read only where a module says so."""
