/* SPDX-License-Identifier: Apache-2.0 */
#include "put/put.h"

#include <coppice/error.h>
#include <string.h>

struct cop_buf *put_order_encode(const struct put_order *order)
{
    size_t size = 1 + 4 + 8 + 4 * 4 + order->file.length + order->dest.length +
                  order->user.length + order->shape.length + 4 +
                  (size_t)order->ids.count * 8;
    struct cop_buf *buf = cop_buf_create(size);
    if (buf == NULL)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, size);
    cop__put_u8(&writer, order->flags);
    cop__put_u32(&writer, order->mode);
    cop__put_u64(&writer, order->timeout_ns);
    cop__put_bytes(&writer, order->file);
    cop__put_bytes(&writer, order->dest);
    cop__put_bytes(&writer, order->user);
    cop__put_bytes(&writer, order->shape);
    cop__put_list(&writer, order->ids, 8);
    return buf;
}

int put_order_decode(struct cop__bytes bytes, struct put_order *out)
{
    struct cop__reader reader = cop__reader(bytes.data, bytes.length);
    struct put_order order;
    order.flags = cop__get_u8(&reader);
    order.mode = cop__get_u32(&reader);
    order.timeout_ns = cop__get_u64(&reader);
    order.file = cop__get_bytes(&reader);
    order.dest = cop__get_bytes(&reader);
    order.user = cop__get_bytes(&reader);
    order.shape = cop__get_bytes(&reader);
    order.ids = cop__get_list(&reader, 8);
    if (!cop__reader_is_done(&reader) || order.mode > 0777)
        return COP_EMALFORMED;
    *out = order;
    return 0;
}

struct cop_buf *put_news_encode(uint64_t done, uint64_t all)
{
    struct cop_buf *buf = cop_buf_create(16);
    if (buf == NULL)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, 16);
    cop__put_u64(&writer, done);
    cop__put_u64(&writer, all);
    return buf;
}

int put_news_decode(struct cop__bytes bytes, uint64_t *done, uint64_t *all)
{
    struct cop__reader reader = cop__reader(bytes.data, bytes.length);
    *done = cop__get_u64(&reader);
    *all = cop__get_u64(&reader);
    return cop__reader_is_done(&reader) ? 0 : COP_EMALFORMED;
}

int put_expand(struct cop__bytes dest, const char *member, char out[PUT_PATH_MAX])
{
    size_t used = 0, name = strlen(member);
    if (dest.length < 2 || dest.data[0] != '/' || dest.data[dest.length - 1] == '/' ||
        memchr(dest.data, '\0', dest.length))
        return COP_EINVAL;
    for (uint32_t i = 0; i < dest.length; i++) {
        bool special = dest.data[i] == '%';
        char next = special && i + 1 < dest.length ? (char)dest.data[i + 1] : '\0';
        if (special && next != 'm' && next != '%')
            return COP_EINVAL;
        if (used + name + 2 > PUT_PATH_MAX)
            return COP_ETOOBIG;
        if (next == 'm') {
            memcpy(out + used, member, name);
            used += name;
        } else {
            out[used++] = (char)dest.data[i];
        }
        i += special;
    }
    out[used] = '\0';
    return 0;
}
