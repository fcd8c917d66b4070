cimport cython

cdef Py_ssize_t BASE_OFFSET, BYTE_OFFSET, BYTE_SIZE, FILE, RECORD_COUNT, ROW, TIMESTAMP, TIMESTAMP_TYPE, VERDICT
cdef long long _ACCEPTED

@cython.locals(line=Py_ssize_t, file=Py_ssize_t)
cpdef Py_ssize_t place_batches(
    const long long[:, ::1] lines, Py_ssize_t first, Py_ssize_t stop, const long long[::1] bounds, const long long[::1] file_ids,
    const long long[::1] append_times, long long[::1] owners, long long[:, ::1] rows, Py_ssize_t to,
) except -1

@cython.locals(to=Py_ssize_t, place=Py_ssize_t, cell=Py_ssize_t)
cpdef object order_rows(const long long[:, ::1] rows, const long long[::1] order, long long[:, ::1] sorted_rows)

@cython.locals(line=Py_ssize_t, verdict=Py_ssize_t)
cpdef object count_lines(const long long[:, ::1] lines, long long[::1] totals)
