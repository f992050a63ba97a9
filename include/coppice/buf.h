/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COPPICE_BUF_H
#define COPPICE_BUF_H

#include <coppice/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Bytes shared by reference count. A buffer is written by whoever made it until it is
 * first shared, and read-only after that, so one encoding can be sent to many peers.
 * The count is not atomic: a buffer stays with the thread of its node.
 */
/* clang-format off */
#ifdef __cplusplus
__extension__ /* an array without a length is C's, but compilers of C++ have it too */
#endif
struct cop_buf {
    uint32_t refs;
    uint32_t length;
    uint8_t data[];
};
/* clang-format on */

/* A new buffer of `length` uninitialised bytes with one reference. NULL if there is no
 * memory, or if `length` does not fit in 32 bits. */
struct cop_buf *cop_buf_create(size_t length);

/* A new buffer with a copy of `length` bytes, or NULL. */
struct cop_buf *cop_buf_copy(const void *data, size_t length);

/* Takes one more reference and returns `buf`. NULL stays NULL. */
struct cop_buf *cop_buf_ref(struct cop_buf *buf);

/* Gives one reference back; the last one frees. NULL is ignored. */
void cop_buf_unref(struct cop_buf *buf);

#ifdef __cplusplus
}
#endif

#endif
