cimport cython

@cython.locals(at=Py_ssize_t)
cpdef Py_ssize_t first_at_least(const long long[::1] values, Py_ssize_t start, long long least) except -2

@cython.locals(batch=Py_ssize_t, at=Py_ssize_t, count=cython.uint, last=cython.longlong)
cpdef object packed_reaching(
    const unsigned int[::1] cells, Py_ssize_t place, long long base, long long end, long long log_start, long long timestamp_base,
    long long timestamp,
)

@cython.locals(at=Py_ssize_t, time=cython.longlong)
cpdef Py_ssize_t row_reaching(const long long[:, ::1] rows, Py_ssize_t start, Py_ssize_t stop, long long log_start, long long timestamp) except -2

@cython.locals(
    found=list, batch=Py_ssize_t, at=Py_ssize_t, kind=cython.uint, count=cython.longlong, file=cython.longlong, timestamp=cython.longlong,
)
cpdef object unpack_batches(
    const unsigned int[::1] cells, Py_ssize_t place, long long base, long long offset, long long end, long long file_base,
    long long timestamp_base, Py_ssize_t limit,
)
