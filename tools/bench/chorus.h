/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_BENCH_CHORUS_H
#define COP_TOOLS_BENCH_CHORUS_H

#include <coppice/run.h>
#include <coppice/stream.h>
#include <stdatomic.h>
#include <sys/types.h>

/*
 * A cluster for streams, of processes that are there for nothing else: this one is a member
 * (`self`), and the others are forked and give packets until they are killed. Over TCP on the
 * loopback. What each has given is counted in memory that all share, so that it is known of the
 * dead, too.
 */
#define CHORUS_MAX 1024u
/* How back-ends give to a stream: by its number, modulo 3. */
enum chorus_way {
    CHORUS_ANSWER = 0, /* one packet for each that comes down */
    CHORUS_BURST = 1,  /* as many as there is room for, at once */
    CHORUS_FLUSH = 2,  /* one after the other, each in a turn of the loop of its own */
};
#define CHORUS_STREAM 1u

struct chorus;

struct chorus_config {
    uint32_t n;
    cop_id self;          /* which member this process is */
    const char *shape;    /* of the tree */
    const char *key_file; /* TLS; NULL: in clear */
    uint64_t waves; /* packets that each back-end gives to a stream of BURST or FLUSH */
    bool
        is_struck; /* of ANSWER: with each packet it is noted how its back-end has recovered */
    /* The packet of a wave: at most CHORUS_PACKET_MAX bytes, and how many. */
    uint32_t (*packet)(cop_id id, uint64_t wave, uint8_t *out);
    /* Whether a packet that came down is right; NULL: nobody asks. */
    bool (*is_right)(const void *context, cop_id id,
                     const struct cop_stream_event *event);
    const void *context;
    /* A member that is the front-end until it is killed, and takes what comes; NONE: nobody. */
    cop_id opener;
    struct cop_stream_options options; /* with which it opens */
};
#define CHORUS_PACKET_MAX 8192u

/* In shared memory, one for each member. */
struct chorus_note {
    _Atomic uint64_t given; /* packets, or one more than were taken */
    /* The number of its first packet: a process that is late may find that there have been
     * waves. 0: it has yet to hear of the stream. */
    _Atomic uint64_t began;
    _Atomic uint64_t heard,
        wrong; /* packets that came down; of them, not as they should */
    _Atomic cop_time lost, asked, adopted; /* its last recovery */
};

struct chorus {
    struct chorus_config config;
    struct cop_run *run;
    struct chorus_note *notes;
    int listeners[CHORUS_MAX];
    char texts[CHORUS_MAX][32];
    const char *addresses[CHORUS_MAX];
    pid_t pids[CHORUS_MAX]; /* by member; 0: this one, or it was killed */
    uint64_t given;         /* of this process */
    uint64_t flushed;       /* the stream to which each turn gives a packet; 0: none */
};

/* All are members when this returns. 0, or EXIT_FAILED after one line; then all are gone. */
int chorus_open(struct chorus *chorus, const struct chorus_config *config);
void chorus_close(struct chorus *chorus);
/* SIGKILL. */
void chorus_strike(struct chorus *chorus, cop_id id);
/* The same, and waits until it is gone. */
void chorus_kill(struct chorus *chorus, cop_id id);
bool chorus_lives(const struct chorus *chorus, cop_id id);
/* The number of the last packet that a member has given, at the most, and of the last before
 * its first. */
uint64_t chorus_given(const struct chorus *chorus, cop_id id);
uint64_t chorus_began(const struct chorus *chorus, cop_id id);
/* Packets that came down to it; `wrong`: those that were not right, and one that came twice or not
 * in order. */
uint64_t chorus_heard(const struct chorus *chorus, cop_id id, uint64_t *wrong);
/* Whether it was told of the stream, so that chorus_began() is known. A wave that covers it may
 * be here before it was. */
bool chorus_has_begun(const struct chorus *chorus, cop_id id);

#endif
