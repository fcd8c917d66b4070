cimport cython

cdef Py_ssize_t BASE_OFFSET, BYTE_OFFSET, BYTE_SIZE, FILE, RECORD_COUNT, ROW, TIMESTAMP, TIMESTAMP_TYPE, VERDICT
cdef Py_ssize_t _LINES_WITH_LOCK
cdef long long _ACCEPTED

@cython.locals(line=Py_ssize_t)
cpdef Py_ssize_t place_batches(
    const long long[:, ::1] lines, Py_ssize_t first, Py_ssize_t stop, const long long[::1] bounds, const long long[::1] file_ids,
    const long long[::1] append_times, long long[::1] owners, long long[:, ::1] rows, Py_ssize_t to,
) except -1

cpdef Py_ssize_t count_batches(const long long[:, ::1] lines, Py_ssize_t first, Py_ssize_t stop, long long[::1] counts) except -1

@cython.locals(line=Py_ssize_t, row=Py_ssize_t, known=Py_ssize_t)
cdef Py_ssize_t _count_batches(
    const long long[:, ::1] lines, Py_ssize_t first, Py_ssize_t stop, long long[::1] counts,
) except -1 nogil

cpdef object sort_batches(
    const long long[:, ::1] lines, Py_ssize_t first, Py_ssize_t stop, const long long[::1] bounds, const long long[::1] file_ids,
    const long long[::1] append_times, long long[::1] places, long long[:, ::1] rows,
)

@cython.locals(line=Py_ssize_t, owner=Py_ssize_t, to=Py_ssize_t)
cdef int _sort_batches(
    const long long[:, ::1] lines, Py_ssize_t first, Py_ssize_t stop, const long long[::1] bounds, const long long[::1] file_ids,
    const long long[::1] append_times, long long[::1] places, long long[:, ::1] rows,
) except -1 nogil

@cython.locals(file=Py_ssize_t)
cdef int _put_row(
    const long long[:, ::1] lines, Py_ssize_t line, const long long[::1] bounds, const long long[::1] file_ids,
    const long long[::1] append_times, long long[:, ::1] rows, Py_ssize_t to,
) except -1 nogil

@cython.locals(line=Py_ssize_t, verdict=Py_ssize_t)
cpdef object count_lines(const long long[:, ::1] lines, long long[::1] totals)
