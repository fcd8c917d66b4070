cimport cython

@cython.locals(end=Py_ssize_t, count=Py_ssize_t, size=Py_ssize_t, partitions=Py_ssize_t)
cpdef Py_ssize_t named_topics(bytes data, Py_ssize_t at, bint has_id, Py_ssize_t partition_bytes, bint has_records, bint is_flexible, list found) except? -2

@cython.locals(value=cython.longlong)
cdef (Py_ssize_t, Py_ssize_t) _count(bytes data, Py_ssize_t at, Py_ssize_t end, bint is_flexible)

cdef (Py_ssize_t, Py_ssize_t) _records_size(bytes data, Py_ssize_t at, Py_ssize_t end, bint is_flexible)

@cython.locals(value=cython.longlong)
cdef (Py_ssize_t, Py_ssize_t) _text_size(bytes data, Py_ssize_t at, Py_ssize_t end, bint is_flexible)

@cython.locals(count=Py_ssize_t, size=Py_ssize_t)
cdef Py_ssize_t _after_tags(bytes data, Py_ssize_t at, Py_ssize_t end) except? -2

@cython.locals(value=cython.longlong, shift=cython.int, byte=cython.longlong)
cdef (Py_ssize_t, Py_ssize_t) _varint(bytes data, Py_ssize_t at, Py_ssize_t end)

@cython.locals(value=cython.longlong, place=Py_ssize_t)
cdef long long _int32(bytes data, Py_ssize_t at) except? -1
