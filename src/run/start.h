/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_RUN_START_H
#define COP_RUN_START_H

#include "net/tcp/driver.h"

/*
 * How a cluster began: what its members had to know before the first message, and what one
 * who joins is told by whomever it asks. As a text:
 *
 *   cluster 0123456789abcdef0123456789abcdef
 *   instance 1700000000000000000
 *   first 1700000000000000000      incarnation of all members at the start
 *   shape radix:4
 *   quorum majority                or none, fixed, has:0,3
 *   detector ring:100ms,witnesses:2
 *   guard 0                        removals a minute; 0, or left out: any number
 *   directory /run/...             of relative paths; only where there are any
 *   0 n0 unix:m0.sock              id, name, address; from 0 on
 */
struct cop__start {
    uint8_t cluster[16];
    uint64_t instance;
    cop_incarnation first;
    char shape_text[64], quorum_text[128], detector_text[64];
    struct cop_shape shape;
    enum cop_quorum quorum;
    struct cop_ranks quorum_ids; /* has: sorted */
    struct cop_detect detect;
    uint64_t guard;
    char directory[256];
    uint32_t n, capacity;
    struct cop__start_member {
        char *name, *address; /* owned; as they were written */
    } * members;
};

void cop__start_init(struct cop__start *start);
void cop__start_free(struct cop__start *start);

/* Each checks and keeps a value. COP_EINVAL with a sentence, COP_ENOMEM. */
int cop__start_set_shape(struct cop__start *start, const char *text, char *message,
                         size_t size);
int cop__start_set_quorum(struct cop__start *start, const char *text, char *message,
                          size_t size);
int cop__start_set_detector(struct cop__start *start, const char *text, char *message,
                            size_t size);
/* The next member. `name` NULL: n0, n1, ... */
int cop__start_add(struct cop__start *start, const char *name, const char *address,
                   char *message, size_t size);
/* What can be judged only when all is known: call it last. */
int cop__start_check(const struct cop__start *start, char *message, size_t size);
/* An id of 16 bytes that all who call it by the same name share. */
void cop__start_set_name(struct cop__start *start, const char *name);

int cop__start_read(struct cop__start *start, const char *text, size_t length,
                    char *message, size_t size);
/* A text that cop__start_read understands. NULL: no memory. */
struct cop_buf *cop__start_describe(const struct cop__start *start);

/* COP_ENOENT if it was not there. */
int cop__start_address(const struct cop__start *start, cop_id id,
                       struct cop__address *out);
/* The id of a name or of digits; COP_ID_NONE. */
cop_id cop__start_find(const struct cop__start *start, const char *name);

#endif
