cimport cython

cpdef Py_ssize_t scan_records(
    const unsigned char[::1] body, long long[::1] state, Py_ssize_t rows, long long delta_max, long long base_offset, long long base_ms,
    long long append_ms, bint is_appended, long long[:, ::1] fields,
) except -1

@cython.locals(
    end=Py_ssize_t, row=Py_ssize_t, at=Py_ssize_t, stop=Py_ssize_t, size=cython.longlong, time_delta=cython.longlong, delta=cython.longlong,
    key_size=cython.longlong, key_at=Py_ssize_t, value_size=cython.longlong, value_at=Py_ssize_t, headers=cython.longlong,
    headers_at=Py_ssize_t, _=cython.longlong, raw="const unsigned char*",
)
cdef Py_ssize_t _scan_records(
    const unsigned char[::1] body, long long[::1] state, Py_ssize_t rows, long long delta_max, long long base_offset, long long base_ms,
    long long append_ms, bint is_appended, long long[:, ::1] fields,
) except -1 nogil

@cython.locals(row=Py_ssize_t)
cpdef object scan_headers(
    const unsigned char[::1] body, const long long[:, ::1] fields, Py_ssize_t first, Py_ssize_t stop, long long[:, ::1] spans,
)

@cython.locals(found=Py_ssize_t, end=Py_ssize_t, row=Py_ssize_t, at=Py_ssize_t, size=cython.longlong, _=cython.longlong, raw="const unsigned char*")
cdef Py_ssize_t _scan_headers(
    const unsigned char[::1] body, const long long[:, ::1] fields, Py_ssize_t first, Py_ssize_t stop, long long[:, ::1] spans,
) except -1 nogil

@cython.locals(end=Py_ssize_t)
cpdef Py_ssize_t gather(
    const unsigned char[::1] body, const long long[::1] starts, const long long[::1] sizes, Py_ssize_t first, Py_ssize_t stop,
    unsigned char[::1] out, Py_ssize_t at, int[::1] ends, unsigned char[::1] bits, Py_ssize_t row,
) except -1

@cython.locals(
    held=Py_ssize_t, room=Py_ssize_t, place=Py_ssize_t, size=cython.longlong, start=cython.longlong, byte=Py_ssize_t,
    source="const unsigned char*", target="unsigned char*",
)
cdef Py_ssize_t _gather(
    const unsigned char[::1] body, const long long[::1] starts, const long long[::1] sizes, Py_ssize_t first, Py_ssize_t stop,
    unsigned char[::1] out, Py_ssize_t at, int[::1] ends, unsigned char[::1] bits, Py_ssize_t row,
) except? -2 nogil

@cython.locals(found=list, held=Py_ssize_t, place=Py_ssize_t, size=cython.longlong, start=cython.longlong, source="const unsigned char*")
cpdef list cut(const unsigned char[::1] body, const long long[::1] starts, const long long[::1] sizes)

@cython.locals(bits=cython.ulonglong, byte=cython.ulonglong, shift=cython.int)
cdef (long long, Py_ssize_t) _varint(const unsigned char* raw, Py_ssize_t at, Py_ssize_t stop) noexcept nogil

@cython.locals(size=cython.longlong)
cdef (long long, Py_ssize_t) _size(const unsigned char* raw, Py_ssize_t at, Py_ssize_t stop) noexcept nogil

cdef Py_ssize_t _after(long long size, Py_ssize_t at) noexcept nogil

cdef long long _wrapped(unsigned long long one, unsigned long long other) noexcept nogil

cdef Py_ssize_t _fault(long long[::1] state, Py_ssize_t row, long long fault, long long found, long long limit) except -1 nogil
