cimport cython
from libc.string cimport strlen
from posix.unistd cimport unlink

@cython.locals(stop=Py_ssize_t, raw="const char*")
cpdef Py_ssize_t unlink_while_possible(bytes paths, Py_ssize_t at) except -1
