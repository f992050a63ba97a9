/* SPDX-License-Identifier: Apache-2.0 */
#include <coppice/buf.h>

#include "base/assert.h"

#include <stdlib.h>
#include <string.h>

/* The length must fit its field, and the sum with the head must fit a size. */
static bool length_fits(size_t length)
{
    return length <= UINT32_MAX && length <= SIZE_MAX - sizeof(struct cop_buf);
}

struct cop_buf *cop_buf_create(size_t length)
{
    if (!length_fits(length))
        return NULL;
    struct cop_buf *buf = malloc(sizeof(*buf) + length);
    if (buf == NULL)
        return NULL;
    buf->refs = 1;
    buf->length = (uint32_t)length;
    return buf;
}

struct cop_buf *cop_buf_copy(const void *data, size_t length)
{
    struct cop_buf *buf = cop_buf_create(length);
    /* memcpy may not be given NULL, not even for nothing. */
    if (buf != NULL && length > 0)
        memcpy(buf->data, data, length);
    return buf;
}

struct cop_buf *cop_buf_ref(struct cop_buf *buf)
{
    if (buf == NULL)
        return NULL;
    COP_ASSERT(buf->refs > 0 && buf->refs < UINT32_MAX);
    buf->refs++;
    return buf;
}

void cop_buf_unref(struct cop_buf *buf)
{
    if (buf == NULL)
        return;
    COP_ASSERT(buf->refs > 0);
    if (--buf->refs == 0)
        free(buf);
}
