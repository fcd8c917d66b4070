cimport cython

@cython.locals(start=Py_ssize_t, end=Py_ssize_t, time_end=Py_ssize_t, characters=Py_ssize_t, time_characters=Py_ssize_t, at=Py_ssize_t, time_ms=cython.longlong, letter=cython.int, value=cython.int, before=cython.Py_UCS4)
cpdef long long ulid_time_ms(str key, bytes values) except? -2
