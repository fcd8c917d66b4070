cimport cython

@cython.locals(value=cython.longlong, place=Py_ssize_t)
cdef long long _int(bytes data, Py_ssize_t at, Py_ssize_t size) except? -1

@cython.locals(value=cython.longlong)
cdef long long _varint(bytes data, Py_ssize_t at, Py_ssize_t stop) except? -1

@cython.locals(stop=Py_ssize_t)
cdef Py_ssize_t _after_varint(bytes data, Py_ssize_t at, Py_ssize_t end) except? -1

@cython.locals(place=Py_ssize_t)
cdef int _put(long long value, unsigned char[::1] out, Py_ssize_t at) except -1

@cython.locals(end=Py_ssize_t, key_start=Py_ssize_t, key_bytes=Py_ssize_t, at=Py_ssize_t, first=Py_ssize_t, owners=Py_ssize_t, row=Py_ssize_t,
               count=Py_ssize_t, tags=Py_ssize_t, fields=cython.int, tag=cython.int, size=Py_ssize_t, object_format=cython.longlong,
               file_size=cython.longlong, timeout_ms=cython.longlong, broker_id=cython.longlong, created_ms=cython.longlong,
               owner_ids=list)
cdef object _body(bytes data, Py_ssize_t offset, Py_ssize_t key_bytes_max, Py_ssize_t elements_max)

@cython.locals(found=list, frame=bytes)
cpdef list read_bodies(object frames, Py_ssize_t offset, Py_ssize_t key_bytes_max, Py_ssize_t elements_max)

@cython.locals(
    row=Py_ssize_t, at=Py_ssize_t, request=Py_ssize_t, line=Py_ssize_t, number=Py_ssize_t, start=Py_ssize_t, stop=Py_ssize_t, starts=list,
    time=cython.longlong,
)
cpdef list write_answers(
    const long long[:, ::1] lines, Py_ssize_t verdict_cell, Py_ssize_t base_cell, Py_ssize_t type_cell, Py_ssize_t log_start_cell,
    Py_ssize_t time_cell, const long long[::1] append_times, list first_line, unsigned char[::1] out,
)
