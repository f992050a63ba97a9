/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_NET_PACKET_START_H
#define COP_NET_PACKET_START_H

#include "net/packet/host.h"

/* What drivers of networks of packets do alike when they start, and while they wait. */

/* Puts a sentence into `why`, which may be NULL; returns `error`. */
int cop__say(int error, char *why, size_t size, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Settings begin with their size: COP_EINVAL, and why, if it is not the one known here. */
int cop__check_size(size_t size, size_t known, char *why, size_t why_size);
/*
 * A host among `count` processes that all have the life config->node.incarnation; `shape` as
 * for cop_shape_parse, without a table. NULL: flat for few, where each level of a tree would cost more than
 * what it takes off the root, and wide for many. The view is another reference.
 */
int cop__start_host(struct cop__host_config *config, uint32_t count, const char *shape,
                    struct cop_view **view, struct cop__host **out, char *why,
                    size_t why_size);
/* When so much time will have passed; COP_TIME_NEVER if it is more than there is. */
cop_time cop__until(cop_time timeout_ns);
/* Makes progress until something happened, that failed, or so much time has passed. */
int cop__wait(int (*progress)(void *context), void *context, bool yields,
              cop_time timeout_ns);

#endif
