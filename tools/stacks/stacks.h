/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_STACKS_STACKS_H
#define COP_TOOLS_STACKS_STACKS_H

#include <coppice/buf.h>
#include <coppice/types.h>
#include <stdio.h>

/*
 * Call stacks of many processes as one prefix tree. Samples are lines, as unwind.h says;
 * a tree is a state of the filter "stacks", so that trees of many hosts can be joined
 * anywhere on their way.
 */
struct stack_wishes {
    const char *pids; /* "12,14-16", or NULL */
    const char *name; /* of the process, as in /proc/PID/comm; or NULL */
    const char *exe;  /* path of its program, or the last part of it; or NULL */
    bool threads;
    cop_time patience_ns;
};

/* Processes that match, without this one; ordered. COP_ENOMEM, COP_EIO. */
int stacks_find(const struct stack_wishes *wishes, uint32_t **pids, uint32_t *count);

/* Samples them, in a process of its own. `lines` is to be freed. COP_ENOMEM, COP_EIO. */
int stacks_sample(const struct stack_wishes *wishes, const uint32_t *pids,
                  uint32_t count, char **lines);

/* The tree of the lines with 'S'; one reference. COP_ENOMEM, COP_EINVAL. */
int stacks_tree(cop_id leaf, const char *lines, struct cop_buf **out);

/*
 * Lines of many hosts, each with which host it is of, so that they can be carried by anything
 * that carries lines; something may stand before them. A machine that was looked at twice is
 * there once: it is known by its key (top/host_sample.h), and sets do not count twice.
 */
struct stack_host {
    char name[64], key[96];
    char *lines;
    size_t length;
};
struct stack_hosts {
    struct stack_host *at;
    uint32_t count;
};
/* The lines of one host, marked. */
void stacks_mark(FILE *out, const char *name, const char *key, const char *lines);
/* COP_ENOMEM. Lines of others are passed over. */
int stacks_read(FILE *in, struct stack_hosts *out);
void stacks_hosts_fini(struct stack_hosts *hosts);
/* One tree of all; leaf i is host i. COP_ENOMEM, COP_EINVAL. */
int stacks_join(const struct stack_hosts *hosts, struct cop_buf **out);

enum stacks_form { STACKS_TEXT, STACKS_JSON, STACKS_DOT, STACKS_SVG };
/* `hosts` has the names of leaves from 0 on. COP_ENOMEM. */
int stacks_print(FILE *out, enum stacks_form form, const struct cop_buf *tree,
                 const char *const *hosts, uint32_t host_count);

#endif
