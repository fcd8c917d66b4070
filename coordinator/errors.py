"""The root of the errors that users of the client and of an object store see."""


class DisklessError(Exception):
    """Something failed; the text names what, the reason or limit, and the remedy."""
