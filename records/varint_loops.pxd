cimport cython

@cython.locals(at=Py_ssize_t, place=Py_ssize_t, number=cython.longlong, unsigned=cython.ulonglong)
cpdef Py_ssize_t write_varints(const long long[::1] numbers, unsigned char[::1] out) except -1
