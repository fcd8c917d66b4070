cimport cython

@cython.locals(value=cython.longlong, place=Py_ssize_t)
cdef long long _int32(bytes data, Py_ssize_t at) except? -1

@cython.locals(place=Py_ssize_t)
cdef int _put_int32(long long value, unsigned char[::1] out, Py_ssize_t at) except -1

@cython.locals(place=Py_ssize_t, same=Py_ssize_t)
cdef bint _has(bytes frame, Py_ssize_t at, bytes piece) except -1

@cython.locals(end=Py_ssize_t, head=Py_ssize_t, size=cython.longlong)
cpdef Py_ssize_t cut_frames(bytes data, Py_ssize_t at, long long size_max, list frames) except -1

@cython.locals(found=list, kind_bytes=Py_ssize_t, head=Py_ssize_t, count=Py_ssize_t, size=Py_ssize_t, frame=bytes)
cpdef list same_heads(list frames, Py_ssize_t at, bytes start, bytes rest, Py_ssize_t count_max, Py_ssize_t bytes_max)

@cython.locals(pieces=list, tags=Py_ssize_t, size_bytes=Py_ssize_t, head_bytes=Py_ssize_t, place=Py_ssize_t, size=Py_ssize_t, body=object, head=bytearray, out="unsigned char[::1]")
cpdef list frame_replies(list correlation_ids, list bodies, Py_ssize_t first, Py_ssize_t stop, bint is_tagged)
