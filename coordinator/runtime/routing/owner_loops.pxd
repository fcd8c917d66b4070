cimport cython

@cython.locals(row=Py_ssize_t, topic_at=Py_ssize_t, topic_bytes=Py_ssize_t, partition_bytes=Py_ssize_t, end=Py_ssize_t, row_at=Py_ssize_t,
               at=Py_ssize_t, known=Py_ssize_t, same=Py_ssize_t, place=Py_ssize_t, partition=cython.longlong, common=cython.longlong,
               owner=cython.longlong, partitions=list, data="const unsigned char*")
cdef long long _common_owner(bytes batches, dict owners) except? -2

@cython.locals(found=list, batches=bytes, owner=cython.longlong, last=cython.longlong, at=Py_ssize_t)
cpdef list owners_of_files(list files, dict owners)
