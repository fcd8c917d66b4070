cimport cython

@cython.locals(batch=Py_ssize_t, at=Py_ssize_t, byte=Py_ssize_t, first=cython.longlong, last=cython.longlong)
cpdef int put_sequences(unsigned char[::1] frame, const long long[::1] places, const long long[::1] slots, const long long[::1] counts,
                        long long[::1] sequences) except -1

@cython.locals(row=Py_ssize_t, duplicate=Py_ssize_t, end=Py_ssize_t, at=Py_ssize_t, count=Py_ssize_t, shift=cython.int, byte=cython.int)
cpdef Py_ssize_t plain_results(const unsigned char[::1] frame, Py_ssize_t offset) except? -2
