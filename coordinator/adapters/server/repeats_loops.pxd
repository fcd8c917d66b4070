cimport cython

cdef Py_ssize_t ID_START, ID_STOP

@cython.final
cdef class Remembered:
    cdef readonly object connection, key
    cdef readonly double wait_s, since_s
    cdef readonly Py_ssize_t size_bytes, reply_bytes
    cdef public long long repeated, tick
    cdef public int socket
    cdef public bytes waits
    cdef bytes _start, _end, _reply_start, _reply_end
    cdef object _promise
    cdef double _holds_until_s

    cpdef bint take(self, bytes data, double now_s) except -1

    @cython.locals(reply=bytes)
    cpdef bytes take_reply(self)

@cython.locals(one=Remembered, number=object, data=bytes, waiting=list)
cpdef list read_ready(list ready, dict lent, double now_s)

@cython.locals(one=Remembered, together=list, begun=list)
cpdef list put_in_ticks(list waiting, double now_s, double tick_s, dict due)

@cython.locals(one=Remembered, reply=bytes, sent=Py_ssize_t, answered=list)
cpdef list answer_due(list together, long long tick)
