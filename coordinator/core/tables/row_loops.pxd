cimport cython

cdef Py_ssize_t BASE, BYTE_OFFSET, COUNT, FILE_OF, ORDER, SIZE, STARTS, STOPS, TIMESTAMP, TYPE

@cython.locals(segment=Py_ssize_t, place=Py_ssize_t, to=Py_ssize_t, at=Py_ssize_t, file=Py_ssize_t, first=cython.longlong)
cpdef object place_columns(
    const long long[:, ::1] columns, const long long[::1] targets, list file_ids, list first_batch, long long append_time,
    long long[:, ::1] rows,
)

@cython.locals(
    at=Py_ssize_t, run=Py_ssize_t, to=Py_ssize_t, _=Py_ssize_t, length=Py_ssize_t, end=cython.longlong, offset=cython.longlong,
    count=cython.longlong, age=cython.longlong, size=cython.longlong, gap=cython.longlong, has_gaps=bint, has_types=bint,
)
cpdef object place_record(
    list run_length, list run_base_offset, list record_count_minus_one, list byte_gap, list byte_size, list timestamp_age,
    list timestamp_type, const long long[::1] targets, long long file_id, long long append_time, long long[:, ::1] rows,
)
