cimport cython

@cython.locals(passed=Py_ssize_t, same=Py_ssize_t, place=Py_ssize_t, found=cython.longlong, stands_at=cython.longlong, key=bytes)
cpdef Py_ssize_t count_due(object entries, bytes head, long long seq, long long offset) except -1

@cython.locals(
    run=Py_ssize_t, batch=Py_ssize_t, file=Py_ssize_t, found=Py_ssize_t, place=Py_ssize_t, topic_at=Py_ssize_t,
    appended=cython.longlong, position=cython.longlong, _=Py_ssize_t, _at=Py_ssize_t, topic_number=cython.longlong,
    partitions_max=cython.longlong, name=cython.longlong, segment=Py_ssize_t, row=cython.longlong, offset=cython.longlong,
    length=cython.longlong, count=cython.longlong, size=cython.longlong, end=cython.longlong, at=Py_ssize_t, topic_numbers=dict,
    segment_numbers=dict, ordinals=list, key=bytes,
)
cpdef Py_ssize_t place_batches(
    bytes raw, const long long[:, ::1] heads, Py_ssize_t first, Py_ssize_t stop, const long long[:, ::1] decoded, dict index,
    const long long[::1] high_watermark, list keys, long long[:, ::1] segments, long long[:, ::1] columns,
) except? -1

@cython.locals(
    at=Py_ssize_t, place=Py_ssize_t, found=Py_ssize_t, numbers=Py_ssize_t, unusual=Py_ssize_t, file=Py_ssize_t, batch=Py_ssize_t,
    _=Py_ssize_t, segment=Py_ssize_t, row=cython.longlong, producer=cython.longlong, epoch=cython.longlong, number=Py_ssize_t,
    slot=Py_ssize_t, end=cython.longlong, length=cython.longlong, sequence=cython.longlong, to=Py_ssize_t, new=dict,
    of_partition=dict,
)
cpdef Py_ssize_t place_producers(
    const long long[:, ::1] heads, Py_ssize_t first, Py_ssize_t stop, const long long[:, ::1] decoded,
    const long long[:, ::1] segments, const long long[:, ::1] columns, dict index, const long long[::1] table_epoch,
    long long[::1] mark, long long[:, ::1] listed, long long[:, ::1] of_batch, long long[:, ::1] of_producer,
) except? -1
