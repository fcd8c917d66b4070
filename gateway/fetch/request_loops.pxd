cimport cython

@cython.locals(value=cython.longlong, place=Py_ssize_t)
cdef long long _int(bytes data, Py_ssize_t at, Py_ssize_t size) except? -1

@cython.locals(value=cython.longlong, byte=cython.longlong, place=cython.int)
cdef (Py_ssize_t, long long) _varint(bytes data, Py_ssize_t at, Py_ssize_t end)

@cython.locals(count=cython.longlong)
cdef (Py_ssize_t, long long) _count(bytes data, Py_ssize_t at, Py_ssize_t end, bint flexible)

@cython.locals(size=cython.longlong)
cdef (Py_ssize_t, long long) _text(bytes data, Py_ssize_t at, Py_ssize_t end, bint flexible)

@cython.locals(flexible=cython.bint, has_ids=cython.bint, topics=cython.longlong, count=cython.longlong, start=Py_ssize_t, size=cython.longlong)
cdef Py_ssize_t _after_the_rest(bytes data, Py_ssize_t at, Py_ssize_t end, int version, long long elements_max) except? -2

@cython.locals(
    at=Py_ssize_t, end=Py_ssize_t, flexible=cython.bint, has_ids=cython.bint, replica_id=cython.longlong, max_wait_ms=cython.longlong,
    min_bytes=cython.longlong, max_bytes=cython.longlong, isolation=cython.int, session_id=cython.longlong,
    session_epoch=cython.longlong, row=Py_ssize_t, epoch_at=Py_ssize_t, offset_at=Py_ssize_t, bytes_at=Py_ssize_t,
    elements=cython.longlong, topic_count=cython.longlong, count=cython.longlong, start=Py_ssize_t, size=cython.longlong, stop=Py_ssize_t, place=Py_ssize_t,
    epoch=cython.longlong, topics=list, rows=list,
)
cpdef object read_body(bytes data, Py_ssize_t offset, int version, long long elements_max)
