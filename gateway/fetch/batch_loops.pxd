cimport cython

cdef int _OBJECT_KEY
cdef int _BYTE_OFFSET
cdef int _BYTE_SIZE
cdef int _BASE_OFFSET
cdef int _LAST_OFFSET
cdef int _LOG_APPEND_TIMESTAMP
cdef int _TIMESTAMP_TYPE

@cython.locals(count=Py_ssize_t, size=cython.longlong, more=cython.longlong)
cpdef tuple count_fitting(object batches, long long bytes_max, bint is_first_free)

@cython.locals(starts=list, key=object, due=cython.longlong, place=Py_ssize_t, start=cython.longlong)
cpdef list neighbours(object batches, Py_ssize_t stop)

@cython.locals(
    number=Py_ssize_t, size=cython.longlong, base=cython.longlong, last=cython.longlong, place=cython.longlong, mark=cython.int,
    size_min=cython.longlong, mark_bytes=cython.longlong,
)
cpdef Py_ssize_t assign_batches(
    object raw, unsigned char[::1] out, Py_ssize_t at, object batches, Py_ssize_t first, Py_ssize_t stop, unsigned char[::1] marks,
    long long start,
) except -1

@cython.locals(delta=cython.longlong, count=cython.longlong)
cdef bint _is_sound(unsigned char[::1] out, Py_ssize_t at, long long size, long long last_offset_delta) except -1

@cython.locals(value=cython.longlong, place=Py_ssize_t)
cdef long long _int(unsigned char[::1] data, Py_ssize_t at, Py_ssize_t size) except? -1

@cython.locals(place=Py_ssize_t)
cdef int _put(long long value, unsigned char[::1] out, Py_ssize_t at, Py_ssize_t size) except -1
