cimport cython

cdef Py_ssize_t BASE_OFFSET, BASE_SEQUENCE, BYTE_OFFSET, BYTE_SIZE, DETAIL, FILE, LOG_START, PARTITION, PRODUCER_EPOCH, PRODUCER_ID
cdef Py_ssize_t RECORD_COUNT, ROW, TIMESTAMP, TIMESTAMP_TYPE, TOPIC_HIGH, TOPIC_LOW, VERDICT
cdef unsigned long long _MASK, _ODD_1, _ODD_2, _MULTIPLY_1, _MULTIPLY_2
cdef long long BAD_MAGIC, BAD_OFFSETS, BAD_RANGE, BAD_TIME, BAD_TYPE, OUT_OF_ORDER

@cython.locals(top=cython.longlong)
cdef long long _int32(const unsigned char* data, Py_ssize_t at) noexcept

@cython.locals(low=cython.longlong, high=cython.longlong)
cdef long long _int64(const unsigned char* data, Py_ssize_t at) noexcept

cdef unsigned long long _scattered(unsigned long long word) noexcept

cdef unsigned long long _mixed(unsigned long long lane, unsigned long long word, unsigned long long odd) noexcept

@cython.locals(place=Py_ssize_t)
cdef int _put_word(unsigned char[::1] out, Py_ssize_t at, unsigned long long word) except -1

cdef long long _flaw_of(
    long long magic, long long offset, long long size, long long file_size, long long first, long long last, long long time, long long kind
) noexcept

@cython.locals(
    files=Py_ssize_t, batches=Py_ssize_t, start=Py_ssize_t, stop=Py_ssize_t, object_format=cython.longlong, fault_place=Py_ssize_t,
    fault=cython.longlong, faults=list, file=Py_ssize_t, line=Py_ssize_t, at=Py_ssize_t, file_size=cython.longlong, end_of_previous=cython.longlong,
    reason=cython.longlong, offset=cython.longlong, size=cython.longlong, first=cython.longlong, last=cython.longlong,
    time=cython.longlong, kind=cython.longlong, producer=cython.longlong, epoch=cython.longlong, data="const unsigned char*",
    low="unsigned long long", high="unsigned long long", owners=list, owner=cython.longlong, word=Py_ssize_t,
    number=cython.longlong,
)
cpdef list read_requests(
    bytes raw, list first_line, list heads, list owner_ids, long long[:, ::1] lines, unsigned char[::1] hashes,
)
