/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COPPICE_LOG_H
#define COPPICE_LOG_H

#ifdef __cplusplus
extern "C" {
#endif

/* How much a line of a log matters; see on_log of coppice/run.h. */
enum cop_log_level {
    COP_LOG_ERROR, /* something does not work, and a person has to do something */
    COP_LOG_WARN,  /* something is not as it should be; it is dealt with */
    COP_LOG_INFO,  /* what happened */
    COP_LOG_DEBUG, /* for who looks for a fault */
};

#ifdef __cplusplus
}
#endif

#endif
