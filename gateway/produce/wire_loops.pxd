cimport cython

@cython.locals(value=cython.longlong, place=Py_ssize_t)
cdef long long _int(bytes data, Py_ssize_t at, Py_ssize_t size) except? -1

@cython.locals(place=Py_ssize_t)
cdef int _put(long long value, unsigned char[::1] out, Py_ssize_t at, Py_ssize_t size) except -1

@cython.locals(rest=cython.longlong)
cdef Py_ssize_t _put_count(long long count, unsigned char[::1] out, Py_ssize_t at, bint is_flexible) except -1

cdef Py_ssize_t _put_no_errors(unsigned char[::1] out, Py_ssize_t at, bint is_flexible) except -1

@cython.locals(rest=cython.longlong, shift=cython.int, taken=cython.longlong, byte=cython.longlong)
cdef long long _length(bytes data, Py_ssize_t at, bint is_flexible, Py_ssize_t size) except? -99

@cython.locals(size=cython.longlong, taken=cython.longlong)
cdef Py_ssize_t _after(Py_ssize_t at, long long packed, Py_ssize_t end) except -1

@cython.locals(count=cython.longlong)
cdef long long _count(long long packed, long long left, str what) except -1

@cython.locals(packed=cython.longlong, fields=cython.longlong, _=cython.longlong)
cdef Py_ssize_t _after_tags(bytes data, Py_ssize_t at, Py_ssize_t end) except -1

@cython.locals(
    end=Py_ssize_t, partitions_max=cython.longlong, is_flexible=cython.bint, packed=cython.longlong, is_transactional=cython.bint, acks=cython.longlong,
    timeout_ms=cython.longlong, topic_count=cython.longlong, place=Py_ssize_t, name=Py_ssize_t, key=Py_ssize_t, stop=Py_ssize_t,
    partition_count=cython.longlong, first=Py_ssize_t, index=cython.longlong, start=Py_ssize_t, _=cython.longlong,
)
cdef object _read(bytes data, Py_ssize_t at, long long version, list topics, list spans)

cpdef object read_request(bytes data, Py_ssize_t at, long long version, list topics, list spans)

@cython.locals(
    is_flexible=cython.bint, size=Py_ssize_t, topic=tuple, tail=bytes, out=bytearray, cells="unsigned char[::1]", at=Py_ssize_t,
    name=Py_ssize_t, stop=Py_ssize_t, first=Py_ssize_t, last=Py_ssize_t, byte=Py_ssize_t, place=Py_ssize_t, given=bytes,
)
cpdef bytes write_answer(
    bytes data, long long version, list topics, list spans, const long long[:, ::1] results, dict tails, long long throttle_ms,
)
