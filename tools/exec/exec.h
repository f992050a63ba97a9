/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_EXEC_EXEC_H
#define COP_TOOLS_EXEC_EXEC_H

#include "wire/codec.h"

#include <coppice/coll.h>

/*
 * What `coppice exec` says to its agent, the agent to the members, and back.
 *
 * A *run* is one command on many members. The agent that was asked is its root. It broadcasts
 * the order (HEAL: everyone alive gets it once). A member whose command ends within a moment
 * replies with a *record*: how it ended, and its outputs if they are short. Who takes longer
 * says so; then the root asks whether it is over, again and again, each question being open for
 * a second, and gathers the records when nobody runs any more. So no broadcast is long, and the
 * root's silence says that the root is gone.
 *
 * Records are counted in the tree (COP_OP_COUNT), so equal ones travel once. Of long outputs the
 * record has the digest; the root then fetches the text from one of those who have it, piece by
 * piece, each when the last one has left for the command: nobody on the way keeps more than a
 * piece. Streams go by letter from the member to the root, one piece at a time, for the same
 * reason.
 */
#define EXEC_SERVICE UINT64_C(0x65786563)
#define EXEC_VERSION 1u

#define EXEC_LIMIT_DEFAULT (UINT32_C(1) << 20)
#define EXEC_LIMIT_MAX (UINT32_C(64) << 20)
/* Longer ones are fetched. With a view that never changes there are no letters, and what is
 * longer than the second is cut off. */
#define EXEC_INLINE UINT32_C(4096)
#define EXEC_INLINE_FIXED (UINT32_C(64) << 10)
#define EXEC_PIECE (UINT32_C(64) << 10)  /* of a fetch */
#define EXEC_STREAM (UINT32_C(16) << 10) /* of a stream */
#define EXEC_TIMEOUT_MAX (UINT64_C(86400) * COP_SEC)
/* How long a question is open at a member, and how long the whole of it may take. */
#define EXEC_PATIENCE (COP_SEC)
#define EXEC_ROUND (UINT64_C(10) * COP_SEC)
/*
 * A question that is open for longer than members may take waits for somebody who is silent.
 * Then, beside it, all are asked again and again what there is, for so short a time, and what
 * the others said is shown. Who was silent once is waited for as long at most, and when the
 * time of the command itself is up (and JOB_GRACE_MS) nobody is for longer than EXEC_AFTER.
 */
#define EXEC_LATE_MS 1250u
#define EXEC_PEEK (COP_SEC)
#define EXEC_AGAIN (UINT64_C(2) * COP_SEC)
#define EXEC_AFTER (UINT64_C(3) * COP_SEC)
/*
 * An order that seems to be older than this, or younger than nothing, by the clock of the
 * member, waited at somebody who was stopped, or clocks differ: the root is asked before
 * anything begins. Its word is good for EXEC_WORD. Without letters nobody can be asked, and only
 * what is older than EXEC_STALE, by which time the root still waits, does not begin.
 */
#define EXEC_FRESH (UINT64_C(2) * COP_SEC)
#define EXEC_WORD (COP_SEC)
#define EXEC_STALE (UINT64_C(8) * COP_SEC)
/* A root that has not been heard of for so long is gone. */
#define EXEC_LEASE (UINT64_C(60) * COP_SEC)
#define EXEC_DIGEST 32u
/* Runs of which a member knows. */
#define EXEC_RUNS_MAX 128u
/* Bytes of all outputs that a member keeps for roots to fetch. */
#define EXEC_KEPT_MAX (UINT64_C(256) << 20)

enum exec_flag {
    EXEC_FLAG_STREAM = 1,   /* outputs as they come */
    EXEC_FLAG_INPUT = 2,    /* `input` is its standard input */
    EXEC_FLAG_NEWS = 4,     /* command to agent: how it goes, once a second */
    EXEC_FLAG_NOT_ROOT = 8, /* order: the root only asks */
    EXEC_FLAG_WAVES =
        16, /* command to agent: WAVE when there is something to be shown */
};

/* The command to the agent (VERB_EXEC), and the agent to the members. Borrowed bytes. */
struct exec_order {
    uint8_t kind; /* enum exec_kind; to the agent EXEC_RUN */
    uint8_t flags;
    uint64_t
        run; /* named by its root after its clock, in ns since 1970, each larger than
                    * the last; to the agent 0 */
    uint64_t done; /* RUN: up to this one all are over */
    cop_time timeout_ns;
    uint32_t limit;          /* of each output */
    uint32_t inline_max;     /* of both together */
    struct cop__list ids;    /* who is meant, as ranges of 8 bytes; none: everybody */
    struct cop__bytes user;  /* who wants it, as the root knows; not ended by 0 */
    struct cop__bytes words; /* each ended by 0 */
    struct cop__bytes input;
};

enum exec_kind {
    EXEC_RUN = 1, /* a record, or the byte EXEC_RUNNING; nothing if it is not meant */
    EXEC_WAIT, /* is it over? a byte: enum exec_state; nothing if it knows of no such run */
    EXEC_GATHER,  /* a record; nothing, the same */
    EXEC_CANCEL,  /* end it; who has not begun does not begin */
    EXEC_RELEASE, /* forget it; whatever still runs is ended */
};
enum exec_state { EXEC_OVER, EXEC_RUNNING };

/* How it ended at a member, or at several. */
enum exec_record_flag {
    EXEC_TIMED_OUT = 1,
    EXEC_CANCELLED = 2,
    EXEC_APART = 4, /* the outputs are to be fetched; here is their digest */
};
struct exec_record {
    uint8_t end; /* enum job_end */
    uint8_t flags;
    uint32_t code;
    uint64_t total[2]; /* bytes that were written; 0 for a stream */
    uint32_t kept[2];  /* how many of them there are */
    struct cop__bytes text[2];
    struct cop__bytes digest; /* APART */
};

/*
 * All else: letters between root and member, and replies of the agent to the command. What the
 * fields mean depends on the kind; those that are not named are 0.
 */
enum exec_note_kind {
    /* letters */
    EXEC_GET = 1, /* run, which, offset */
    EXEC_PART, /* run, which, offset, bytes; none at the end, or if it is gone (offset
                     UINT64_MAX) */
    EXEC_OUT,  /* run, which 0 and 1 together: `count` bytes of standard output first */
    EXEC_NEXT, /* run: the next piece of the stream, please */
    EXEC_ASK,  /* run: the order took long; is it still wanted? */
    EXEC_GO,   /* run; count: 1 if it is, 0 if nobody waits for it any more */
    /* replies */
    EXEC_STARTED = 16, /* run */
    EXEC_NEWS,     /* count: who have not ended, with `ranges` of them; of `offset` */
    EXEC_OUTPUT,   /* member, which, bytes */
    EXEC_CLASS,    /* index in `count`, ranges, bytes: a record */
    EXEC_TEXT,     /* index, which, bytes */
    EXEC_GONE,     /* index: nobody is left who has the text */
    EXEC_FAILURES, /* bytes: failures, 13 each */
    EXEC_END,      /* count: members; member: answered; offset: elapsed; which: 1 if
                          cancelled */
    EXEC_WAVE, /* classes and texts so far are whole, and more may come; count: who have not
                      answered, ranges: of them */
};
struct exec_note {
    uint8_t kind;
    uint8_t which; /* 0: standard output, 1: standard error */
    uint64_t run;
    uint64_t offset;
    uint32_t count;
    cop_id member;
    struct cop__list ranges; /* of ids, 8 bytes each */
    struct cop__bytes bytes;
};

/* What a letter of ours begins with. */
#define EXEC_LETTER 0xe5u

/* Encoders: NULL: no memory. Decoders: 0 or COP_EMALFORMED; all is borrowed. */
struct cop_buf *exec_order_encode(const struct exec_order *order);
int exec_order_decode(struct cop__bytes bytes, struct exec_order *out);
struct cop_buf *exec_record_encode(const struct exec_record *record);
int exec_record_decode(struct cop__bytes bytes, struct exec_record *out);
struct cop_buf *exec_note_encode(const struct exec_note *note);
int exec_note_decode(struct cop__bytes bytes, struct exec_note *out);

#define EXEC_FAILURE_SIZE 13u
void exec_failure_put(struct cop__writer *writer, const struct cop_failure *failure);
struct cop_failure exec_failure_at(struct cop__bytes bytes, uint32_t i);
struct cop_id_range exec_range_at(struct cop__list ranges, uint32_t i);
void exec_range_put(struct cop__writer *writer, struct cop_id_range range);
bool exec_ranges_have(struct cop__list ranges, cop_id id);

/* The words as an array ended by NULL, to be freed; they stay where they are. */
char **exec_words(struct cop__bytes words);

#endif
