cimport cython

@cython.locals(passed=Py_ssize_t, same=Py_ssize_t, place=Py_ssize_t, found=cython.longlong, stands_at=cython.longlong, key=bytes)
cpdef Py_ssize_t count_due(object entries, bytes head, long long seq, long long offset) except -1
