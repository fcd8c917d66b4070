cimport cython

cdef long long APPEND_TIME_SET, BAD_CODEC, BAD_COUNT, BAD_CRC, BAD_EPOCH, BAD_LENGTH, BAD_MAGIC, BAD_RECORD, BAD_SEQUENCE, BAD_TIMES
cdef long long BASE_OFFSET_SET, BATCH_TIMES, BYTES_AFTER, CONTROL, NO_BATCH, OLD_MAGIC, OLD_ZSTD, RECORD_ERRORS_MAX, TOO_LARGE, TRANSACTIONAL
cdef Py_ssize_t ROW_BYTES, HEADER_BYTES, _CRC_FROM, _LENGTH_FROM, _LEGACY_BYTES_MIN
cdef long long _UNTIMED, _TIME_MAX

@cython.locals(value=cython.longlong, place=Py_ssize_t)
cdef long long _int(bytes data, Py_ssize_t at, Py_ssize_t size) except? -1

@cython.locals(place=Py_ssize_t)
cdef int _put(long long value, unsigned char[::1] out, Py_ssize_t at, Py_ssize_t size) except -1

@cython.locals(stop=Py_ssize_t)
cdef Py_ssize_t _after_varint(bytes data, Py_ssize_t at, Py_ssize_t end) except? -1

@cython.locals(rest="unsigned long long", half=cython.longlong, sign=cython.longlong)
cdef long long _varint(bytes data, Py_ssize_t at, Py_ssize_t stop) except? -1

@cython.locals(begin=Py_ssize_t, size=cython.longlong)
cdef Py_ssize_t _after_bytes(bytes data, Py_ssize_t at, Py_ssize_t stop, bint may_be_null) except? -1

@cython.locals(begin=Py_ssize_t, headers=cython.longlong, _=cython.longlong)
cdef Py_ssize_t _after_fields(bytes data, Py_ssize_t at, Py_ssize_t stop) except? -1

@cython.locals(
    at=Py_ssize_t, largest=cython.longlong, bad=cython.longlong, record=cython.longlong, head=Py_ssize_t, begin=Py_ssize_t, size=cython.longlong,
    stop=Py_ssize_t, delta=cython.longlong, time=cython.longlong,
)
cdef long long _walk(
    bytes data, Py_ssize_t start, Py_ssize_t end, long long count, long long base_ms, bint is_append_time, long long oldest_ms,
    long long newest_ms, Py_ssize_t place, list found, list bad_records,
) except -1

@cython.locals(attributes=cython.int, last=cython.longlong, count=cython.longlong, producer_id=cython.longlong, sequence=cython.longlong, epoch=cython.longlong)
cdef long long _check_header(bytes data, Py_ssize_t start, list found) except -1

@cython.locals(length=cython.longlong, magic=cython.longlong, base_offset=cython.longlong)
cdef long long _check_frame(bytes data, Py_ssize_t start, Py_ssize_t size, long long version, long long bytes_max, list found) except -1

@cython.locals(fault=cython.longlong, crc=cython.longlong, computed=cython.longlong, base_ms=cython.longlong, max_ms=cython.longlong, count=cython.longlong)
cdef long long _check_batch(
    bytes data, object view, Py_ssize_t start, Py_ssize_t size, long long version, long long bytes_max, bint is_append_time,
    long long oldest_ms, long long newest_ms, Py_ssize_t place, list found, list bad_records,
) except -1

@cython.locals(byte=Py_ssize_t, last=cython.longlong, producer_id=cython.longlong, sequence=cython.longlong)
cdef object _write_row(
    bytes data, Py_ssize_t start, Py_ssize_t size, bytes topic_id, long long index, bint is_append_time, long long max_ms,
    unsigned char[::1] rows, Py_ssize_t at,
)

@cython.locals(found=list, view=object, place=Py_ssize_t, index=cython.longlong, start=Py_ssize_t, size=Py_ssize_t, fault=cython.longlong)
cpdef Py_ssize_t check_batches(
    bytes data, list spans, Py_ssize_t first, Py_ssize_t stop, long long version, bytes topic_id, long long partitions, long long bytes_max,
    bint is_append_time, long long oldest_ms, long long newest_ms, unsigned char[::1] rows, Py_ssize_t row, long long[::1] starts,
    long long[::1] places, list faults, list bad_records,
) except -1

@cython.locals(pieces=list, row=Py_ssize_t, at=Py_ssize_t)
cpdef list gather(list views, const long long[::1] of_view, const long long[::1] starts, const long long[::1] sizes)
