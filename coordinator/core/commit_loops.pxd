cimport cython

@cython.locals(top=cython.longlong)
cdef long long _int32(const unsigned char* data, Py_ssize_t at) except? -1

@cython.locals(low=cython.longlong, high=cython.longlong)
cdef long long _int64(const unsigned char* data, Py_ssize_t at) except? -1

@cython.locals(back=Py_ssize_t)
cdef bint _is_equal(const unsigned char* data, Py_ssize_t one, Py_ssize_t other, Py_ssize_t length) except -1

@cython.locals(
    at=Py_ssize_t, place=Py_ssize_t, run=Py_ssize_t, file=Py_ssize_t, first_run=Py_ssize_t, first_place=Py_ssize_t,
    topic_at=Py_ssize_t, _=Py_ssize_t, file_size=cython.longlong, end_of_previous=cython.longlong, row_now=cython.longlong,
    ordinal=cython.longlong, offset=cython.longlong, length=cython.longlong, first=cython.longlong, last=cython.longlong,
    time=cython.longlong, kind=cython.longlong, guess=Py_ssize_t, before=cython.longlong, data="const unsigned char*", known=dict, ids=list, ids_before=list,
)
cpdef Py_ssize_t read_batches(
    bytes raw, const long long[::1] batches_of_file, const long long[::1] file_sizes, long long append_time_ms,
    dict index, long long[::1] seen, long long[::1] file_of,
    long long[::1] row, long long[::1] count, long long[::1] byte_offset, long long[::1] size, long long[::1] gap,
    long long[::1] timestamp, long long[::1] timestamp_type,
    long long[::1] age, long long[::1] count_minus_one, long long[::1] runs_of_file, long long[::1] run_first,
    long long[::1] run_length, long long[::1] run_partition, long long[::1] run_topic, list topics,
) except? -1

@cython.locals(
    segments=Py_ssize_t, unusual=Py_ssize_t, segment=Py_ssize_t, run=Py_ssize_t, place=Py_ssize_t, at=cython.longlong, end=cython.longlong, length=cython.longlong
)
cpdef Py_ssize_t assign_offsets(
    Py_ssize_t runs, long long offsets_max, const long long[::1] file_of, const long long[::1] row, const long long[::1] count, const long long[::1] high_watermark, const long long[::1] log_start,
    long long[::1] mark, const long long[::1] run_first, long long[::1] run_base, long long[::1] run_log_start,
    long long[::1] base, long long[::1] log_start_of, long long[::1] segment_of, long long[::1] order,
    long long[::1] segment_row, long long[::1] starts, long long[::1] stops,
) except? -1

@cython.locals(
    found=Py_ssize_t, producers=Py_ssize_t, before=Py_ssize_t, unusual=Py_ssize_t, place=Py_ssize_t, at=Py_ssize_t, number=Py_ssize_t, slot=Py_ssize_t,
    newest=Py_ssize_t, producer=cython.longlong, its_epoch=cython.longlong, first=cython.longlong, last=cython.longlong,
    end=cython.longlong, length=cython.longlong, data="const unsigned char*", guess=Py_ssize_t, guess_mask=cython.longlong, new=dict, of_partition=dict,
)
cpdef Py_ssize_t read_producers(
    bytes raw, const long long[::1] file_of, const long long[::1] row, const long long[::1] count, dict index,
    long long[::1] guesses, const long long[::1] owner, const long long[::1] producer_of_slot, const long long[::1] table_epoch, const long long[::1] head, const long long[::1] ring_last, long long[::1] mark,
    long long[::1] batch, long long[::1] producer_id, long long[::1] epoch, long long[::1] sequence, long long[::1] producer_of,
    long long[::1] distance, long long[::1] producers_of_file, long long[::1] slots, long long[::1] epochs, long long[::1] expected, long long[::1] starts,
) except? -1

@cython.locals(number=Py_ssize_t, found=Py_ssize_t, place=cython.longlong, sequence=cython.longlong, to=cython.longlong)
cpdef object sort_by_producer(
    const long long[::1] batch, const long long[::1] sequence_of, const long long[::1] producer_of, const long long[::1] producer_id,
    const long long[::1] segment_of, const long long[::1] count, const long long[::1] starts, long long[::1] cursor,
    long long[::1] at, long long[::1] first_sequences, long long[::1] last_sequences, long long[::1] segments,
    long long[::1] producer_ids,
)
