cimport cython

@cython.locals(
    segment=Py_ssize_t, at=Py_ssize_t, row=cython.longlong, greatest=cython.longlong, place=cython.longlong, effective=cython.longlong
)
cpdef Py_ssize_t advance_partitions(
    const long long[::1] rows, const long long[::1] order, const long long[::1] starts, const long long[::1] stops,
    const long long[::1] base, const long long[::1] count, const long long[::1] timestamp, const long long[::1] timestamp_type,
    const long long[::1] file_of, const long long[::1] append_times, long long[::1] high_watermark, long long[::1] max_timestamp,
    long long[::1] max_timestamp_offset,
) except? -1

@cython.locals(number=Py_ssize_t, slot=cython.longlong, strangers=list)
cpdef list find_strangers(
    const long long[::1] slots, const long long[::1] segments, const long long[::1] producer_ids, const long long[::1] rows,
    const long long[::1] owner, const long long[::1] producer, long long top,
)

@cython.locals(
    number=Py_ssize_t, at=Py_ssize_t, slot=cython.longlong, stop=cython.longlong, place=cython.longlong, cell=cython.longlong,
    which=cython.longlong, held=cython.longlong,
)
cpdef object remember_batches(
    const long long[::1] slots, const long long[::1] epochs, const long long[::1] starts, const long long[::1] batch,
    const long long[::1] first_sequences, const long long[::1] last_sequences, const long long[::1] base,
    const long long[::1] timestamp_type, const long long[::1] file_of, const long long[::1] append_times,
    long long[::1] table_epoch, long long[::1] head, long long[::1] remembered, long long[::1] last_append,
    long long[::1] ring_first, long long[::1] ring_last, long long[::1] ring_base, long long[::1] ring_time,
)
