/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COPPICE_TYPES_H
#define COPPICE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef uint32_t cop_id;          /* a member, for as long as the cluster lives */
typedef uint32_t cop_rank;        /* a position in a view or tree, 0 .. n-1 */
typedef uint64_t cop_incarnation; /* one life of a member; never repeats, only grows */
typedef uint64_t cop_epoch;       /* number of a view */
typedef uint64_t cop_time;        /* nanoseconds on a clock that never goes back */

#define COP_ID_NONE UINT32_MAX
#define COP_RANK_NONE UINT32_MAX
#define COP_TIME_NEVER UINT64_MAX

/* The most members a cluster may have. Ids and ranks are below it. */
#define COP_MEMBERS_MAX (UINT32_C(1) << 24)

#define COP_USEC UINT64_C(1000)
#define COP_MSEC UINT64_C(1000000)
#define COP_SEC UINT64_C(1000000000)

#ifdef __cplusplus
}
#endif

#endif
