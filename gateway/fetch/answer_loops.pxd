cimport cython

@cython.locals(place=Py_ssize_t)
cdef Py_ssize_t _put(long long value, bytearray out, Py_ssize_t at, Py_ssize_t size) except -1

cdef Py_ssize_t _put_count(long long count, bytearray out, Py_ssize_t at, bint flexible) except -1

@cython.locals(
    size=Py_ssize_t, flexible=cython.bint, has_log_start=cython.bint, has_preferred=cython.bint, aborted=cython.int, at=Py_ssize_t, out=bytearray, name=bytes, transactions=bytes, rows=list, index=cython.longlong,
    error=cython.longlong, high_watermark=cython.longlong, log_start=cython.longlong, record_bytes=cython.longlong,
)
cpdef bytearray write_body(int version, int error_code, bint has_aborted, list topics, list cuts)
