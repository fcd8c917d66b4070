cimport cython

cdef Py_ssize_t AT, BASE, COUNT, FIRST_SEQUENCE, ITS_EPOCH, ITS_ID, LAST_SEQUENCE, ORDER, PRODUCER_SEGMENT, PRODUCER_START
cdef Py_ssize_t STARTS, STOPS, TIMESTAMP, TYPE

@cython.locals(
    segment=Py_ssize_t, at=Py_ssize_t, row=cython.longlong, greatest=cython.longlong, place=cython.longlong, effective=cython.longlong
)
cpdef Py_ssize_t advance_partitions(
    list rows, const long long[:, ::1] columns, long long append_time, long long[::1] high_watermark, long long[::1] max_timestamp,
    long long[::1] max_timestamp_offset,
) except? -1

@cython.locals(number=Py_ssize_t, slot=cython.longlong, partition_row=cython.longlong, strangers=list)
cpdef list find_strangers(
    list slots, const long long[:, ::1] of_producer, list rows, const long long[::1] owner, const long long[::1] producer, long long top,
)

@cython.locals(
    number=Py_ssize_t, at=Py_ssize_t, slot=cython.longlong, first=cython.longlong, stop=cython.longlong, place=cython.longlong,
    cell=cython.longlong, which=cython.longlong, held=cython.longlong,
)
cpdef object remember_batches(
    list slots, const long long[:, ::1] of_producer, const long long[:, ::1] of_batch, long long found,
    const long long[:, ::1] columns, long long append_time, long long[::1] table_epoch, long long[::1] head,
    long long[::1] remembered, long long[::1] last_append, long long[::1] ring_first, long long[::1] ring_last,
    long long[::1] ring_base, long long[::1] ring_time,
)
