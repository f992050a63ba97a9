/* SPDX-License-Identifier: Apache-2.0 */
#include "net/packet/start.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>

#define FLAT_MOST 16u

int cop__say(int error, char *why, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (why != NULL && size > 0)
        vsnprintf(why, size, format, arguments);
    va_end(arguments);
    return error;
}

int cop__check_size(size_t size, size_t known, char *why, size_t why_size)
{
    if (size == known)
        return 0;
    return cop__say(COP_EINVAL, why, why_size,
                    "the configuration has %zu bytes and not %zu: compile against the "
                    "header of this library",
                    size, known);
}

int cop__start_host(struct cop__host_config *config, uint32_t count, const char *shape,
                    struct cop_view **view, struct cop__host **out, char *why,
                    size_t why_size)
{
    struct cop_shape parsed;
    if (shape == NULL)
        shape = count <= FLAT_MOST ? "flat" : "knomial:8";
    if (cop_shape_parse(shape, &parsed, why, why_size) != 0)
        return COP_EINVAL;
    int error = cop_view_create_static(count, &parsed, config->node.incarnation, view);
    if (error)
        return cop__say(error, why, why_size, "no view of %u members with shape %s: %s",
                        count, shape, cop_strerror(error));
    config->node.view = *view;
    error = cop__host_create(config, out);
    return error ? cop__say(error, why, why_size, "no node: %s", cop_strerror(error))
                 : 0;
}

cop_time cop__until(cop_time timeout_ns)
{
    cop_time now = cop__host_now();
    return timeout_ns > COP_TIME_NEVER - now ? COP_TIME_NEVER : now + timeout_ns;
}

int cop__wait(int (*progress)(void *context), void *context, bool yields,
              cop_time timeout_ns)
{
    cop_time until =
        timeout_ns == COP_TIME_NEVER ? COP_TIME_NEVER : cop__until(timeout_ns);
    for (;;) {
        int done = progress(context);
        if (done != 0)
            return done;
        if (until != COP_TIME_NEVER && cop__host_now() >= until)
            return 0;
        if (!yields)
            sched_yield();
    }
}
