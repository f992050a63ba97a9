/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_FILTER_LAWS_H
#define COP_FILTER_LAWS_H

#include <coppice/filter.h>

/*
 * Does a filter keep what coppice/filter.h demands of it? Random packets are made into three
 * states a, b and c, on which every law is tried; a case that breaks one is made smaller as
 * long as it still breaks the same one. Packets are made out of words, so that shrinking
 * words shrinks any packet.
 */
enum cop__law {
    COP__LAW_NONE,
    COP__LAW_INIT,       /* init works, and its state passes check */
    COP__LAW_LIFT,       /* lift takes packets of the declared types */
    COP__LAW_STATE,      /* everything that is made passes check */
    COP__LAW_EMPTY,      /* join(empty, a) = a = join(a, empty) */
    COP__LAW_ORDER,      /* join(a, b) = join(b, a) */
    COP__LAW_GROUPING,   /* join(join(a, b), c) = join(a, join(b, c)) */
    COP__LAW_REPETITION, /* join(a, a) = a, if it says so */
    COP__LAW_DIFFERENCE, /* join(a, diff(join(a, b), a)) = join(a, b) */
    COP__LAW_ENCODING,   /* what check takes has one form: join(empty, x) = x */
    COP__LAW_RESULT,     /* of the declared type */
    COP__LAW_PURITY,     /* the same in, the same out; inputs stay as they are */
    COP__LAW_GROWTH,     /* many waves are no larger than few, if it says so */
    COP__LAW_DOWN,       /* filters down: of the type that came in, or it ends there */
    COP__LAWS
};
/* "grouping", and what it demands. */
const char *cop__law_name(enum cop__law law);
const char *cop__law_text(enum cop__law law);

#define COP__LAW_PACKETS 12u
#define COP__LAW_WORDS 6u
struct cop__law_packet {
    uint8_t group; /* 0, 1, 2: part of a, b, c */
    cop_id leaf;
    uint64_t wave;
    uint32_t count; /* words in use */
    uint64_t words[COP__LAW_WORDS];
};
struct cop__law_case {
    uint32_t count;
    struct cop__law_packet packets[COP__LAW_PACKETS];
    uint64_t mutation; /* for ENCODING: which byte of a becomes what */
};

struct cop__law_report {
    enum cop__law broken; /* COP__LAW_NONE: all were kept */
    int error; /* what a function returned when it should have worked; or 0 */
    uint64_t runs, skipped; /* cases; packets that the filter did not want */
    uint64_t steps;         /* of shrinking */
    struct cop__law_case smallest;
};

/* `law_now` (may be NULL) always has the law that is being tried: if the filter crashes, it
 * is what is left. COP_ENOMEM; 0 otherwise, also if a law is broken. */
int cop__laws_try(const struct cop_filter *filter, const char *type, const char *params,
                  uint64_t seed, uint64_t runs, volatile uint32_t *law_now,
                  struct cop__law_report *out);

/* A packet's bytes, as lift gets them. */
int cop__law_packet_make(const struct cop_filter *filter, const char *type,
                         const struct cop__law_packet *packet, struct cop_buf **out);

#endif
