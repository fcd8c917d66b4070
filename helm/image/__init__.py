"""The images: the part of the lock that each of them installs."""
