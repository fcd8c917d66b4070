cimport cython

cdef unsigned long long _MASK, _ODD
cdef Py_ssize_t AT, FIRST_SEQUENCE, ITS_EPOCH, ITS_ID, ITS_SLOT, LAST_SEQUENCE, PRODUCER_SEGMENT, PRODUCER_START

@cython.locals(passed=Py_ssize_t, same=Py_ssize_t, place=Py_ssize_t, found=cython.longlong, stands_at=cython.longlong, key=bytes)
cpdef Py_ssize_t count_due(object entries, bytes head, long long seq, long long offset) except -1

@cython.locals(
    run=Py_ssize_t, ran=Py_ssize_t, batch=Py_ssize_t, file=Py_ssize_t, found=Py_ssize_t, place=cython.longlong, at=Py_ssize_t,
    appended=cython.longlong, position=cython.longlong, _=Py_ssize_t, segment=Py_ssize_t, row=cython.longlong,
    offset=cython.longlong, length=cython.longlong, count=cython.longlong, size=cython.longlong, end=cython.longlong, to=Py_ssize_t,
    file_id=cython.longlong, timestamp=cython.longlong, kind=cython.longlong, effective=cython.longlong, greatest=cython.longlong,
)
cpdef Py_ssize_t place_batches(
    bytes raw, const long long[:, ::1] heads, Py_ssize_t first, Py_ssize_t stop, const long long[:, ::1] decoded,
    const long long[::1] file_ids, dict index, const long long[::1] high_watermark, const long long[::1] max_timestamp,
    const long long[::1] max_timestamp_offset, long long[::1] lookup, long long[::1] topics, long long[:, ::1] segments,
    long long[:, ::1] runs, long long[:, ::1] rows,
) except? -1

@cython.locals(count=Py_ssize_t, before=Py_ssize_t)
cdef Py_ssize_t _runs_before(const long long[:, ::1] heads, Py_ssize_t file, Py_ssize_t kind) except -1

@cython.locals(
    run=Py_ssize_t, ran=Py_ssize_t, file=Py_ssize_t, found=Py_ssize_t, places=Py_ssize_t, topic_at=Py_ssize_t, topic=Py_ssize_t,
    _=Py_ssize_t, partitions_max=cython.longlong, name=cython.longlong, slot=Py_ssize_t, segment=Py_ssize_t, row=cython.longlong,
    topic_numbers=dict,
)
cdef Py_ssize_t _find_partitions(
    bytes raw, const long long[:, ::1] heads, Py_ssize_t first, Py_ssize_t stop, const long long[:, ::1] decoded, dict index,
    const long long[::1] high_watermark, long long[::1] lookup, long long[::1] topics, long long[:, ::1] segments,
    long long[:, ::1] runs,
) except? -1

cdef unsigned long long _spread(unsigned long long name) noexcept

@cython.locals(
    at=Py_ssize_t, run=Py_ssize_t, ran=Py_ssize_t, found=Py_ssize_t, numbers=Py_ssize_t, places=Py_ssize_t, file=Py_ssize_t,
    batch=Py_ssize_t, run_start=Py_ssize_t, run_end=Py_ssize_t, _=Py_ssize_t, segment=cython.longlong, row_at=cython.longlong,
    producer=cython.longlong, epoch=cython.longlong, slot=Py_ssize_t, number=Py_ssize_t, row=cython.longlong, end=cython.longlong,
    length=cython.longlong, place=Py_ssize_t, sequence=cython.longlong, to=Py_ssize_t, of_partition=dict,
)
cpdef Py_ssize_t place_producers(
    const long long[:, ::1] heads, Py_ssize_t first, Py_ssize_t stop, const long long[:, ::1] decoded,
    const long long[:, ::1] segments, const long long[:, ::1] runs, const long long[:, ::1] rows, dict index,
    const long long[::1] table_epoch, const long long[::1] head, const long long[::1] ring_last, long long[::1] lookup,
    long long[:, ::1] listed, long long[:, ::1] of_batch, long long[:, ::1] of_producer,
) except? -1

@cython.locals(segment=Py_ssize_t, row=cython.longlong)
cpdef Py_ssize_t advance_partitions(
    Py_ssize_t count, const long long[:, ::1] rows, const long long[:, ::1] segments, long long[::1] high_watermark, long long[::1] max_timestamp,
    long long[::1] max_timestamp_offset,
) except? -1

@cython.locals(
    number=Py_ssize_t, at=Py_ssize_t, slot=cython.longlong, start=cython.longlong, stop=cython.longlong, place=cython.longlong,
    cell=cython.longlong, row_at=cython.longlong, held=cython.longlong,
)
cpdef object remember_rows(
    list slots, const long long[:, ::1] of_producer, const long long[:, ::1] of_batch, long long found,
    const long long[:, ::1] rows, long long[::1] table_epoch, long long[::1] head, long long[::1] remembered, long long[::1] last_append,
    long long[::1] ring_first, long long[::1] ring_last, long long[::1] ring_base, long long[::1] ring_time,
)

@cython.locals(stretch=Py_ssize_t, to=Py_ssize_t, at=Py_ssize_t, column=Py_ssize_t)
cpdef object copy_rows(
    const long long[:, ::1] rows, const long long[::1] starts, const long long[::1] stops, const long long[::1] targets,
    long long[:, ::1] to_rows,
)
