cimport cython

cdef Py_ssize_t BIT, FORM, GREATEST, KIND, LEAST, LINE
cdef Py_ssize_t BASE_OFFSET, BASE_SEQUENCE, BYTE_OFFSET, BYTE_SIZE, DETAIL, FILE, LOG_START, PARTITION, PRODUCER_EPOCH, PRODUCER_ID
cdef Py_ssize_t RECORD_COUNT, ROW, TOPIC_HIGH, TOPIC_LOW, VERDICT
cdef Py_ssize_t FILE_BYTES_MAX, INT_BYTES_MAX, _PREFIX_BYTES, _ID_BYTES, _SIZE_ROOM, _HEAD_NUMBERS

@cython.final
cdef class _Page:
    cdef long long[:, ::1] lines
    cdef const long long[:, ::1] columns
    cdef long long[::1] numbers
    cdef long long[::1] ends
    cdef unsigned char[::1] out
    cdef const long long[::1] defaults
    cdef const unsigned char[::1] data

@cython.locals(due=cython.longlong, line=Py_ssize_t)
cdef Py_ssize_t _run_end(_Page page, Py_ssize_t first, Py_ssize_t stop) except -1

@cython.locals(line=Py_ssize_t)
cdef long long _first_offset(_Page page, Py_ssize_t first, Py_ssize_t stop) except? -1

@cython.locals(long_max=cython.longlong, line=Py_ssize_t, count=cython.longlong, base=cython.longlong, verdict=cython.longlong)
cdef str _find_fault(_Page page, Py_ssize_t first, Py_ssize_t stop)

@cython.locals(
    room=Py_ssize_t, owners_max=Py_ssize_t, owners=Py_ssize_t, fields=tuple, files=list, data=bytes, entries=list, page=_Page, spans=list, at=Py_ssize_t, file=Py_ssize_t, first=Py_ssize_t, stop=Py_ssize_t, start=Py_ssize_t,
    end=Py_ssize_t, size=Py_ssize_t, size_bytes=Py_ssize_t,
)
cpdef list write_files(bytes prefix, object layout, list heads, list first_line, object table)

@cython.locals(place=Py_ssize_t)
cdef Py_ssize_t _put_bytes(_Page page, Py_ssize_t at, bytes data) except -1

@cython.locals(place=Py_ssize_t)
cdef Py_ssize_t _put_long(_Page page, Py_ssize_t at, long long number) except -1

@cython.locals(place=Py_ssize_t, number=cython.longlong, unsigned=cython.ulonglong)
cdef Py_ssize_t _put_numbers(_Page page, Py_ssize_t at, Py_ssize_t count) except -1

@cython.locals(
    runs=Py_ssize_t, topics=Py_ssize_t, idempotent=Py_ssize_t, others=Py_ssize_t, line=Py_ssize_t, mask=cython.longlong,
    mask_at=Py_ssize_t, run=Py_ssize_t, append=cython.longlong, column=Py_ssize_t, kind=cython.longlong, bit=cython.longlong,
    count=Py_ssize_t, least=cython.longlong, greatest=cython.longlong, bits=cython.longlong, place=Py_ssize_t, number=cython.longlong,
)
cdef Py_ssize_t _write_record(_Page page, Py_ssize_t at, object layout, tuple fields, Py_ssize_t first, Py_ssize_t stop) except -1

@cython.locals(key=bytes, owner_ids=list, content_hash=bytes, place=Py_ssize_t)
cdef Py_ssize_t _write_head(_Page page, Py_ssize_t at, tuple fields) except -1

cdef int _check_int(long long number, str name) except -1

@cython.locals(form=cython.longlong, place=Py_ssize_t, line=Py_ssize_t, run=Py_ssize_t, after=Py_ssize_t)
cdef Py_ssize_t _take_of_runs(_Page page, Py_ssize_t column, Py_ssize_t first, Py_ssize_t runs) except -1

@cython.locals(
    long_max=cython.longlong, form=cython.longlong, place=Py_ssize_t, end=cython.longlong, line=Py_ssize_t, number=cython.longlong,
)
cdef Py_ssize_t _take_of_batches(_Page page, Py_ssize_t column, Py_ssize_t first, Py_ssize_t stop, long long append) except -1

@cython.locals(
    kind=cython.longlong, form=cython.longlong, place=Py_ssize_t, member=Py_ssize_t, from_member=cython.longlong, found=Py_ssize_t,
    before=Py_ssize_t, line=Py_ssize_t,
)
cdef int _take_of_some(_Page page, Py_ssize_t column, Py_ssize_t first, Py_ssize_t stop) except -1

cdef bint _other_topic(_Page page, Py_ssize_t line) except -1

@cython.locals(
    room=Py_ssize_t, longest=Py_ssize_t, value=Py_ssize_t, raw=bytes, start=Py_ssize_t, end=Py_ssize_t, page=_Page, taken=list, heads=list, first_line=list, first=Py_ssize_t,
    version=cython.longlong, stop=Py_ssize_t,
)
cpdef tuple read_files(list values, list starts, list ends, dict layouts, object defaults)

@cython.locals(batches=cython.ulonglong, shift=cython.int, digit=cython.ulonglong)
cdef Py_ssize_t _claimed_batches(bytes raw, Py_ssize_t at, Py_ssize_t end) except -1

@cython.locals(
    place=Py_ssize_t, byte=cython.uchar, unsigned=cython.ulonglong, shift=cython.int, high=cython.ulonglong, half=cython.longlong,
    number=cython.longlong,
)
cdef Py_ssize_t _read_numbers(_Page page, Py_ssize_t at, Py_ssize_t end, Py_ssize_t count, long long least, long long greatest) except -2

@cython.locals(number=cython.longlong, place=Py_ssize_t)
cdef long long _long_at(_Page page, Py_ssize_t at) except? -1

@cython.locals(
    long_max=cython.longlong, mask=cython.longlong, runs=Py_ssize_t, topics=Py_ssize_t, idempotent=Py_ssize_t, others=Py_ssize_t,
    append=cython.longlong, file_size=cython.longlong, key_bytes=Py_ssize_t, owners=Py_ssize_t, object_format=cython.longlong,
    uploader=cython.longlong, created=cython.longlong, owner_ids=list, place=Py_ssize_t, hash_at=Py_ssize_t, topics_at=Py_ssize_t,
    key=str, line=Py_ssize_t, bits=cython.longlong, column=Py_ssize_t, kind=cython.longlong, form=cython.longlong, bit=cython.longlong,
    least=cython.longlong, greatest=cython.longlong, count=Py_ssize_t, is_lawful=cython.bint,
)
cdef object _read_record(
    _Page page, bytes raw, Py_ssize_t at, Py_ssize_t end, long long version, Py_ssize_t first,
    Py_ssize_t stop, Py_ssize_t file,
)

@cython.locals(place=Py_ssize_t)
cdef bint _is_head(_Page page, Py_ssize_t left) except -1

@cython.locals(place=Py_ssize_t, bits=cython.longlong)
cdef bint _are_zero(_Page page, Py_ssize_t count) except -1

@cython.locals(
    form=cython.longlong, place=Py_ssize_t, line=Py_ssize_t, topic=Py_ssize_t, run=Py_ssize_t, number=cython.longlong, after=Py_ssize_t,
    high=cython.longlong, low=cython.longlong, same=Py_ssize_t,
)
cdef bint _give_to_runs(
    _Page page, Py_ssize_t column, Py_ssize_t first, Py_ssize_t stop, Py_ssize_t runs, Py_ssize_t topics_at, Py_ssize_t topics,
) except -1

@cython.locals(form=cython.longlong, place=Py_ssize_t, line=Py_ssize_t, number=cython.longlong)
cdef bint _give_to_batches(_Page page, Py_ssize_t column, Py_ssize_t first, Py_ssize_t stop, long long append) except -1

@cython.locals(
    kind=cython.longlong, form=cython.longlong, place=Py_ssize_t, member=Py_ssize_t, from_member=cython.longlong, found=Py_ssize_t,
    line=Py_ssize_t,
)
cdef bint _give_to_some(_Page page, Py_ssize_t column, Py_ssize_t first, Py_ssize_t stop, Py_ssize_t count) except -1

@cython.locals(
    long_max=cython.longlong, position=cython.longlong, line=Py_ssize_t, after=Py_ssize_t, offset=cython.longlong, accepted=Py_ssize_t,
    one=Py_ssize_t, gap=cython.longlong,
)
cdef bint _derive(_Page page, Py_ssize_t first, Py_ssize_t stop, Py_ssize_t file) except -1
