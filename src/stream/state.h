/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_STREAM_STATE_H
#define COP_STREAM_STATE_H

#include "stream/stream.h"

#include "filter/levels.h"

#include <coppice/filter.h>
#include <coppice/stream.h>

/*
 * Inside stream/. Who does what:
 *   stream.c    the layer: requests, deaths, views
 *   network.c   networks: children, news, who is root
 *   report.c    numbers of attachments: who has to hear of them
 *   define.c    what a stream is, as bytes
 *   orphan.c    finding a parent: choosing, trying, paths and rings
 *   adopt.c     being one: ATTACH, ADOPT, DETACH
 *   slot.c      what a child said: a state and the waves that wait
 *   wave.c      the fold of the slots, wave by wave, and sending it
 *   levels.c    filters by level: groups that are whole are closed
 *   front.c     the front-end: outputs, marks
 *   credit.c    how far back-ends may go; packets down
 *   down.c      filters down: what a back-end is given of these
 *   cover.c     sets of lives, as ranges
 *   departed.c  values of those who are lost
 *   beside.c    what one that carries others gave itself
 *   inspect.c   digest and invariants
 */

/* ---- cover.c: sets of lives ------------------------------------------------------ */

/* `count` members from `first` on, all in the same incarnation. */
struct cop__range {
    cop_id first;
    uint32_t count;
    cop_incarnation incarnation;
};
/* Sorted by id, without overlap, neighbours of one incarnation melted. */
struct cop__lives {
    struct cop__range *items;
    uint32_t count, capacity;
};
#define COP__SIZE_range 16u

void cop__lives_free(struct cop__lives *lives);
/* Adds all of `more`. True if a member was in both: it is kept once. COP_ENOMEM fails the node. */
bool cop__lives_add(struct cop_node *node, struct cop__lives *lives,
                    const struct cop__lives *more);
bool cop__lives_add_one(struct cop_node *node, struct cop__lives *lives, cop_id id,
                        cop_incarnation incarnation);
/* 0: not in it. */
cop_incarnation cop__lives_find(const struct cop__lives *lives, cop_id id);
uint32_t cop__lives_count(const struct cop__lives *lives);
size_t cop__lives_size(const struct cop__lives *lives);
void cop__lives_write(struct cop__writer *writer, const struct cop__lives *lives);
/* False: not such a set. Failing for want of memory fails the node. */
bool cop__lives_read(struct cop_node *node, struct cop__bytes bytes,
                     struct cop__lives *out);

/* ---- departed.c ------------------------------------------------------------------ */

struct cop__gone_leaf {
    cop_id leaf;
    cop_incarnation incarnation;
    uint64_t wave;
    struct cop_buf *state;
};
/* By (leaf, incarnation). */
struct cop__departed {
    struct cop__gone_leaf *items;
    uint32_t count, capacity;
};

void cop__departed_free(struct cop__departed *set);
/* The later wave of one life wins. Takes a reference of its own. Whether it changed anything. */
bool cop__departed_put(struct cop_node *node, struct cop__departed *set,
                       const struct cop__gone_leaf *leaf);
bool cop__departed_join(struct cop_node *node, struct cop__departed *set,
                        const struct cop__departed *more);
void cop__departed_drop(struct cop__departed *set, uint32_t at);
size_t cop__departed_size(const struct cop__departed *set);
void cop__departed_write(struct cop__writer *writer, const struct cop__departed *set);
struct cop__stream;
bool cop__departed_read(struct cop_node *node, struct cop__stream *stream,
                        struct cop__bytes bytes, struct cop__departed *out);
/* Takes one life out of the set; without state: it was not in it. To be unreferenced. */
struct cop__gone_leaf cop__departed_take(struct cop__departed *set, cop_id leaf,
                                         cop_incarnation incarnation);

/* ---- streams --------------------------------------------------------------------- */

/* A wave of a child that waits for those of the others. */
struct cop__pending {
    uint64_t wave;
    struct cop_buf *state; /* a difference, or all of it */
    bool whole : 1, partial : 1, idle : 1, doubled : 1;
    uint32_t beside; /* of a difference: so many bytes behind those of `state` (T9) */
    struct cop__lives cover;       /* of a whole one */
    struct cop__departed departed; /* the same */
    /* Of its sender itself, if that carries others: all of it; of differences that were joined
     * what is new. */
    struct cop__gone_leaf value;
};

/*
 * What a child said. Invariants:
 *   1. pending waves ascend, are above `wave`, and are no more than the window;
 *   2. a slot without state (`heard` is false) has no pending waves.
 */
struct cop__stream_slot {
    cop_id id;
    cop_incarnation incarnation;
    uint64_t number; /* of the attachment */
    bool heard;      /* it has sent its state */
    bool idle;       /* nobody below it gives packets: not waited for */
    bool doubled;    /* somebody is in it twice */
    bool partial;    /* somebody below it is behind */
    uint64_t wave;
    struct cop_buf *state;
    struct cop__lives cover;
    struct cop__departed departed;
    struct cop__gone_leaf value; /* of the child itself, if it carries others (T9) */
    struct cop__pending *pending;
    uint32_t pending_count, pending_first, pending_capacity;
    uint64_t got;      /* packets down that all below it have */
    uint64_t credited; /* the last mark that it was told */
    uint64_t reached;  /* the last of packets down that it was told */
    uint64_t seen;     /* the last wave that it had when it was last looked at (T8) */
};

/* ---- beside.c: what one that carries others gave itself (T9) --------------------- */

#define COP__BESIDE_HEAD 2u

/* Writes COP__BESIDE_HEAD and the length of the value at most; how much it was. */
uint32_t cop__beside_write(const struct cop_buf *sum, const struct cop_buf *value,
                           uint8_t *out);
/* Makes `state` and `beside` of a wave. COP_EMALFORMED, COP_ENOMEM. */
int cop__beside_read(struct cop_span sum, struct cop__bytes bytes,
                     struct cop__pending *out);
/* Of length 0: there is nothing. */
struct cop_span cop__beside(const struct cop__pending *pending);

/* A packet of the front-end. */
struct cop__packet {
    uint64_t number;
    struct cop_buf *bytes;
};

struct cop__stream {
    struct cop__node_timer timer; /* first: SYNC_TIMEOUT */
    struct cop__node_timer hold;  /* what could go with something else has to go now */
    struct cop__network *network;
    uint64_t number;
    uint64_t key; /* of the definition: by it frames name the stream, never 0 */
    struct cop_buf *definition; /* as it travels */
    const struct cop_filter *filter;
    struct cop_buf *empty; /* state of nothing */
    char type[COP_FILTER_NAME_MAX + 1];
    uint8_t sync, flags;
    cop_time timeout_ns;
    uint32_t window;
    struct cop__lives
        back_ends; /* of levels: in which life; otherwise it does not matter */
    uint32_t slots_at_start;     /* ids from here on came later */
    cop_id opener;               /* whose front-end it was at first */
    cop_incarnation opener_life; /* 0: nobody knows */
    cop_epoch planned_in;        /* of the view of who planned it */

    struct cop__stages *stages; /* T20: filters by level; NULL: one for all */
    struct cop__way *way;       /* T21: a filter down; NULL: none */
    bool
        replaces; /* what a child sends takes the place of what it sent before (T17, T20) */

    bool is_back_end; /* this member */
    bool announced;   /* and it was told so */
    struct cop__stream_slot own;
    struct cop__stream_slot *slots; /* by id */
    uint32_t slot_count, slot_capacity;
    struct cop_buf *residue;       /* IDEMPOTENT: what the lost had said */
    struct cop__departed departed; /* of lost leaves, and of slots that are gone */

    uint64_t wave;           /* the last that was made */
    struct cop_buf *state;   /* the fold of the slots then */
    struct cop__lives cover; /* whose */
    struct cop__departed all_departed;
    bool doubled, partial;
    bool made;   /* there was a first one */
    bool forced; /* SYNC_TIMEOUT: it is over */
    bool lean;   /* FRAGILE: slots have less than the state (T19) */
    bool broken; /* that is missing, or the filter failed: it is about to be closed */
    int status;  /* why it is closed */
    bool dirty;  /* slots came, went or were replaced: the next is whole */
    bool silent; /* nothing has been said to the present parent */
    bool value_said; /* it has been told all that this back-end gave (T9) */

    uint64_t mark;      /* of the front-end, as far as I know */
    bool wants_room;    /* the back-end here was turned away */
    uint64_t down;      /* the last packet down that I have */
    uint64_t down_mark; /* all back-ends have those */
    bool delivered;     /* one has come here */
    uint64_t got_said;
    cop_time got_since, reached_since; /* there is something to say above, below */
    cop_time patience;                 /* so long that waits; 0: COP__HOLD */
    struct cop__packet *packets;       /* from down_mark + 1 on */
    uint32_t packet_count, packet_capacity;

    bool has_front;     /* the front-end is here */
    bool front_is_new;  /* and has sent nothing down yet */
    uint64_t shown;     /* the highest wave that a front-end was told here */
    uint64_t taken;     /* and that it took; the mark may be held back (T12) */
    uint64_t completed; /* the last that was complete */
    bool output_whole;
    struct cop_buf
        *output; /* what it was told last, where that is asked for; NULL: nothing */
    /* Of the cover: known until it, or the view, is another one. */
    bool is_surveyed, covers_all;
    uint32_t covered;
};

/* T17: each wave is by itself. */
static inline bool cop__stream_is_single(const struct cop__stream *stream)
{
    return stream->flags & COP_STREAM_SINGLE;
}

/*
 * What joins twice as it joins once may have had some of a wave before, and only the difference to
 * what was there says which. Of all others the sum of what came is that difference.
 */
static inline bool cop__stream_asks_for_difference(const struct cop__stream *stream)
{
    return stream->filter->flags & COP_FILTER_IDEMPOTENT && !stream->replaces;
}

/* T20: what is known of groups. Sorted; of those who are covered at present. */
struct cop__group {
    uint32_t level;
    cop_id id;
    bool whole; /* all of it is here */
};
struct cop__stages {
    struct cop__levels levels;
    struct cop__group *groups;
    uint32_t count, capacity;
};

/* T21: a filter down, and the places of the plan from the top to this member. */
struct cop__way {
    const struct cop_filter *filter;
    char type[COP_FILTER_NAME_MAX + 1];
    struct cop_buf *ready; /* of its parameters */
    struct cop_tree plan;
    struct cop_ranks places;
    uint32_t index, count; /* as in struct cop_place */
};

/* T19: no loss is survived. */
static inline bool cop__stream_is_fragile(const struct cop__stream *stream)
{
    return stream->flags & COP_STREAM_FRAGILE;
}

/* ---- networks -------------------------------------------------------------------- */

struct cop__stream_child {
    cop_id id;
    cop_incarnation incarnation;
    uint64_t number;
};

/* An attachment that was heard of: whoever has a lower number of it drops that. */
struct cop__report {
    cop_id id;
    cop_incarnation incarnation;
    uint64_t number;
    cop_id via; /* the neighbour who said so */
};

struct cop__network {
    struct cop__node_timer timer;  /* first: a try that is not answered */
    struct cop__node_timer repair; /* the root looks for who is missing */
    struct cop__node_timer vigil;  /* one who was taken in says nothing */
    struct cop__node_timer empty;  /* of some stream nobody is the front-end */
    uint64_t number;
    struct cop_shape shape; /* kind 0: the view's */
    bool is_root;
    cop_id parent; /* COP_ID_NONE: none, or none yet */
    cop_incarnation parent_life;
    bool adopted;     /* by the parent; otherwise it was asked */
    uint64_t attempt; /* number of my last attachment */
    /* Whom I left because it seemed lost: it has a slot of me, if it lives. NONE: nobody */
    struct cop__stream_child former;
    struct cop_ranks tried;
    uint32_t rounds; /* all were tried so often */
    bool seeks_root; /* it was the root that I lost: only another one will do (T10) */
    cop_time repair_pause;
    struct cop_stream_recovery recovery; /* the last, for who measures */
    struct cop_ranks path;               /* from the top to my parent */
    uint64_t regeneration;               /* of the root at its top; 0: it is none */
    struct cop__stream_child *children;  /* by id */
    uint32_t child_count, child_capacity;
    struct cop__report *reports; /* by id */
    uint32_t report_count, report_capacity;
    struct cop__stream **streams; /* by number */
    uint32_t stream_count, stream_capacity;
};

/* A stream that is over: its number, or the key of one that was not to be (T1). */
struct cop__closed {
    uint64_t name;
    int why; /* what its filter said (T22); 0: somebody closed it */
};
#define COP__SIZE_closed 12u

struct cop__streams {
    struct cop__network **networks; /* by number */
    uint32_t count, capacity;
    struct cop__closed *closed; /* oldest first */
    uint32_t closed_count;
    bool moved;     /* the view is another one */
    bool disturbed; /* somebody may be lost */
};
#define COP__CLOSED_MAX 1024u
/*
 * T23: of so many bytes are the definitions of all streams that a root opens. Others, who may hear
 * of an end later than of a beginning, take somewhat more: all of it, and what goes with it, fits
 * into one frame for a new neighbour, and nobody can make others keep streams without end.
 */
#define COP__DEFINED_MAX (UINT64_C(832) << 10)
#define COP__DEFINED_HEARD_MAX (UINT64_C(960) << 10)

/* A try that is not answered by then, or that found nobody; longer each time. */
#define COP__ATTACH_AGAIN (UINT64_C(20) * COP_MSEC)
#define COP__ATTACH_LONGEST COP_SEC
/* So long one who lives may take to answer. */
#define COP__ATTACH_PATIENCE (UINT64_C(200) * COP_MSEC)
/* So long a stream whose opener is lost waits for a front-end at a new root. */
#define COP__FRONT_PATIENCE (UINT64_C(10) * COP_SEC)
/* So long marks wait for a frame to go with: more, the more often one came in time, so that a
 * timer costs nothing where packets are answered. */
#define COP__HOLD (UINT64_C(2) * COP_MSEC)
#define COP__HOLD_LONGEST (UINT64_C(100) * COP_MSEC)
/* So long one who was taken in may keep others waiting until it is asked. */
#define COP__VIGIL COP_SEC
/* The root looks for who is missing, at first after this. */
#define COP__REPAIR_AFTER (UINT64_C(100) * COP_MSEC)
/* Of so many members the adopter is drawn from all, of more from so many of them. */
#define COP__CANDIDATES 1024u

static inline struct cop__streams *cop__streams(const struct cop_node *node)
{
    return cop__layer_state(node, COP__SLOT_STREAM);
}

/* ---- stream.c -------------------------------------------------------------------- */

/* By its number: what applications say. There is one of a number, but while another takes its
 * place. */
struct cop__stream *cop__stream_find(const struct cop_node *node, uint64_t number);
/* By its key: what other members say. */
struct cop__stream *cop__stream_named(const struct cop_node *node, uint64_t key);
/* A number, or a key. */
bool cop__stream_was_closed(const struct cop_node *node, uint64_t number);
/* Tells the application; `bytes` may be NULL. */
void cop__stream_tell(struct cop_node *node, const struct cop__stream *stream,
                      const struct cop_stream_event *event);

/* ---- define.c -------------------------------------------------------------------- */

/* Who opens what. */
struct cop__opening {
    const struct cop_stream_options *options;
    cop_id member; /* whose front-end it is, and in which life; 0: nobody's */
    cop_incarnation incarnation;
};
/* The bytes of a stream that is planned here and now. COP_EINVAL, COP_ENOMEM. */
int cop__stream_define(const struct cop_node *node, const struct cop__opening *opening,
                       struct cop_buf **out);
/* T23: whether a definition of so many bytes has a place beside those that there are. */
bool cop__stream_has_room(const struct cop_node *node, size_t bytes, uint64_t most);
/* The stream of these bytes, in no network yet. NULL: they are none; or no memory. */
struct cop__stream *cop__stream_make(struct cop_node *node, struct cop__bytes bytes,
                                     uint64_t *network, struct cop_shape *shape);
void cop__stream_free(struct cop_node *node, struct cop__stream *stream);
bool cop__stream_is_defined(const struct cop__stream *stream,
                            const struct cop_buf *definition);
/* T1: of two under one number the one that was planned first stays. */
bool cop__stream_is_elder(const struct cop__stream *stream,
                          const struct cop__stream *other);
/* One of the settings, or of the library. NULL. */
const struct cop_filter *cop__stream_filter(const struct cop_node *node,
                                            const char *name);
/* Text of a definition. Reading: false if it is none, or has not enough room. */
void cop__stream_write_text(struct cop__writer *writer, const char *text);
bool cop__stream_read_text(struct cop__reader *reader, char *out, size_t size);
bool cop__stream_has_back_end(const struct cop__stream *stream, cop_id id);

/* ---- network.c ------------------------------------------------------------------- */

struct cop__network *cop__network_find(const struct cop_node *node, uint64_t number);
struct cop__network *cop__network_make(struct cop_node *node, uint64_t number,
                                       const struct cop_shape *shape);
/* Ends it, and frees it. */
void cop__network_end(struct cop_node *node, struct cop__network *network);
void cop__network_free(struct cop_node *node, struct cop__network *network);
/* Adds a stream that was opened here, or heard of; tells the application and all neighbours
 * but `from`. It takes the place of `rival`, if that is not NULL. */
void cop__network_add(struct cop_node *node, struct cop__network *network,
                      struct cop__stream *stream, struct cop__stream *rival,
                      cop_id from);
void cop__stream_announce(struct cop_node *node, struct cop__stream *stream);
void cop__network_close(struct cop_node *node, struct cop__stream *stream, cop_id from);
/* What goes to neighbours (T3). Borrowed. */
struct cop__news {
    struct cop__stream *const *streams;
    uint32_t stream_count;
    const struct cop__closed *closed;
    uint32_t closed_count;
    const struct cop__report *reports;
    uint32_t report_count;
};
void cop__network_say(struct cop_node *node, const struct cop__network *network,
                      cop_id to, const struct cop__news *news);
/* All that is to be known: streams, closed ones, and attachments, if they are asked for. To be
 * unreferenced. */
struct cop_buf *cop__network_news(struct cop_node *node,
                                  const struct cop__network *network, bool reports);
/* To one who speaks of a network that is not here: which streams are over. */
void cop__network_say_over(struct cop_node *node, uint64_t number, cop_id to);
/* Takes it in; whether it could be read. Makes the network if there is none. */
bool cop__network_hear(struct cop_node *node, uint64_t number, struct cop__bytes news,
                       cop_id from);
/* Room for one more of a growing array. */
bool cop__grow(struct cop_node *node, void *array, uint32_t count, uint32_t *capacity,
               size_t size);
/* My tree, as the shape and the view have it. */
struct cop_tree cop__network_tree(const struct cop_node *node,
                                  const struct cop__network *network);
/* Takes those below me in that tree as children, unasked. */
void cop__network_spread(struct cop_node *node, struct cop__network *network);
struct cop__stream_child *cop__network_child(const struct cop__network *network,
                                             cop_id id);
void cop__network_add_child(struct cop_node *node, struct cop__network *network,
                            const struct cop__stream_child *child);
/* Its slots are dropped (T8). */
void cop__network_drop_child(struct cop_node *node, struct cop__network *network,
                             cop_id id);
/* The view is another one, or somebody may be lost. */
void cop__network_survey(struct cop_node *node, struct cop__network *network);
void cop__network_root(struct cop_node *node, struct cop__network *network);
/* Makes sure that the root looks for who is missing, soon. */
void cop__network_mend(struct cop_node *node, struct cop__network *network);

/* ---- report.c -------------------------------------------------------------------- */

/* Somebody attached with this number: that is passed on to who has to know. */
void cop__network_report(struct cop_node *node, struct cop__network *network,
                         const struct cop__report *report, cop_id from);
/* NULL: nothing was heard of it. */
const struct cop__report *cop__report_find(const struct cop__network *network,
                                           cop_id id);
/* A child says whom it covers: it is told of those who were heard of elsewhere. */
void cop__report_compare(struct cop_node *node, const struct cop__network *network,
                         cop_id child, const struct cop__lives *cover);

/* ---- orphan.c -------------------------------------------------------------------- */

/* Lets go of the parent, if there is one, and looks for another. */
void cop__orphan_begin(struct cop_node *node, struct cop__network *network);
/* Tells whom I left by mistake, now that it seems to live. */
void cop__orphan_leave(struct cop_node *node, struct cop__network *network);
/* The present try came to nothing. */
void cop__orphan_next(struct cop_node *node, struct cop__network *network);
void cop__orphan_timer(struct cop_node *node, struct cop__node_timer *timer);
bool cop__network_is_attached(const struct cop_node *node,
                              const struct cop__network *network);
/* What my parent says of the way to the root. */
void cop__network_set_path(struct cop_node *node, struct cop__network *network,
                           uint64_t regeneration, struct cop__list path);
void cop__network_send_path(struct cop_node *node, const struct cop__network *network,
                            cop_id to);
/* Encoded ids from the top to me. NULL: no memory. */
struct cop_buf *cop__network_path_bytes(struct cop_node *node,
                                        const struct cop__network *network);

/* ---- adopt.c --------------------------------------------------------------------- */

/* Whether a frame comes too early to be understood: it is kept, if that helps. */
bool cop__network_is_early(struct cop_node *node, const struct cop_frame *frame);
void cop__adopt_send(struct cop_node *node, struct cop__network *network, cop_id to,
                     uint64_t number);
/* T8: asks those for whom others have waited long whether they are below me at all. */
void cop__adopt_vigil(struct cop_node *node, struct cop__node_timer *timer);
/* Begins to look for such, if anybody waits. */
void cop__adopt_watch(struct cop_node *node, struct cop__network *network);
/* For each stream where it stands here. NULL: no memory. */
struct cop_buf *cop__network_places(struct cop_node *node,
                                    const struct cop__network *network);
void cop__detach_send(struct cop_node *node, uint64_t network, cop_id to,
                      uint64_t number);

/* ---- slot.c ---------------------------------------------------------------------- */

struct cop__stream_slot *cop__slot_find(const struct cop__stream *stream, cop_id id);
struct cop__stream_slot *cop__slot_add(struct cop_node *node,
                                       struct cop__stream *stream,
                                       const struct cop__stream_child *child);
/* It is gone: what must stay of it stays. */
void cop__slot_drop(struct cop_node *node, struct cop__stream *stream, cop_id id);
void cop__slot_fini(struct cop__stream_slot *slot);
/* Takes over `pending`. */
void cop__slot_push(struct cop_node *node, struct cop__stream *stream,
                    struct cop__stream_slot *slot, struct cop__pending *pending);
void cop__pending_free(struct cop__pending *pending);
static inline struct cop__pending *cop__slot_at(const struct cop__stream_slot *slot,
                                                uint32_t i)
{
    return &slot->pending[slot->pending_first + i];
}
/* The first wave from `wave` on that it has exactly; UINT64_MAX: none yet. */
uint64_t cop__slot_next(const struct cop__stream_slot *slot, uint64_t wave);
/* Joins all that waits up to `wave`; those that were joined, too, to `sum` if it is not NULL.
 * A `lean` stream has them in `sum` only. */
void cop__slot_apply(struct cop_node *node, struct cop__stream *stream,
                     struct cop__stream_slot *slot, uint64_t wave,
                     struct cop_buf **sum);
/* It cannot go on: nothing more comes of it, and in a step of its own it is closed (T19, T22). */
void cop__stream_break(struct cop_node *node, struct cop__stream *stream, int status);
/* `*state` becomes the join of both. A filter that fails breaks the stream. */
void cop__state_join(struct cop_node *node, struct cop__stream *stream,
                     struct cop_buf **state, struct cop_buf *with);
/* Is it a state of this stream? False: somebody sent what is none; or the filter has failed, and
 * then the stream is broken; or no memory. */
bool cop__state_check(struct cop_node *node, struct cop__stream *stream,
                      struct cop_span state);

/* ---- wave.c ---------------------------------------------------------------------- */

/* Something changed: makes what waves there are. */
void cop__stream_advance(struct cop_node *node, struct cop__stream *stream);
/* Everything, for a new parent. */
void cop__stream_restate(struct cop_node *node, struct cop__stream *stream);
void cop__stream_timer(struct cop_node *node, struct cop__node_timer *timer);
int cop__stream_put(struct cop_node *node, struct cop__stream *stream,
                    const struct cop_request *request);

/* ---- levels.c -------------------------------------------------------------------- */

/* What the parameters become in the definition. COP_EINVAL. */
int cop__stages_plan(const struct cop_node *node,
                     const struct cop_stream_options *options,
                     char out[COP_FILTER_PARAMS_MAX + 1]);
/* Gets ready; the stream has its empty state. False: no memory. */
bool cop__stages_make(struct cop_node *node, struct cop__stream *stream);
void cop__stages_free(struct cop__stages *stages);
/* Whom it covers is another. */
void cop__stages_forget(struct cop__stream *stream);
/* T20: closes what is whole in the state that was made. */
void cop__stages_close(struct cop_node *node, struct cop__stream *stream);
/* For the front-end: closes all. */
void cop__stages_close_all(struct cop_node *node, struct cop_buf **state);

/* ---- front.c --------------------------------------------------------------------- */

void cop__front_attach(struct cop_node *node, struct cop__stream *stream,
                       uint64_t taken, uint64_t reached);
/* The last wave that was made here is for the front-end. */
void cop__front_output(struct cop_node *node, struct cop__stream *stream,
                       struct cop_buf *news);
void cop__front_moved(struct cop_node *node, struct cop__stream *stream);
/* Tells what was taken to those below, if now is the time. */
void cop__front_release(struct cop_node *node, struct cop__stream *stream);
/* T18: at the root, looks for streams that nobody will come back to. */
void cop__front_seek(struct cop_node *node, struct cop__network *network);
void cop__front_timer(struct cop_node *node, struct cop__node_timer *timer);
bool cop__stream_is_complete(const struct cop_node *node, struct cop__stream *stream);

/* ---- credit.c -------------------------------------------------------------------- */

void cop__stream_set_mark(struct cop_node *node, struct cop__stream *stream,
                          uint64_t mark, uint64_t down_mark);
/* Tells those below how far they may go, if that is more than they know. */
void cop__stream_credit(struct cop_node *node, struct cop__stream *stream);
void cop__stream_credit_one(struct cop_node *node, struct cop__stream *stream,
                            struct cop__stream_slot *slot);
/* Takes a packet of the front-end, and passes it on. Borrows. */
void cop__stream_down(struct cop_node *node, struct cop__stream *stream,
                      uint64_t number, struct cop_buf *bytes);
/* Sends a child what it has not got. */
void cop__stream_catch_up(struct cop_node *node, struct cop__stream *stream,
                          cop_id child, uint64_t has);
/* Says above what all below have; soon, if no wave does. */
void cop__stream_got(struct cop_node *node, struct cop__stream *stream);
/* The same, for a wave that goes up now. */
uint64_t cop__stream_got_now(struct cop__stream *stream);
/* Whether there is something to say above or below that may wait for a frame to go with. */
bool cop__stream_owes_got(const struct cop__stream *stream);
bool cop__stream_owes_reached(const struct cop__stream *stream);
void cop__stream_hold(struct cop_node *node, struct cop__node_timer *timer);

/* ---- down.c ---------------------------------------------------------------------- */

/* In the flags of a definition: it has a filter down. A member that does not know of such does not
 * take the definition, as if it had not the filter. */
#define COP__DEFINES_WAY 32u

/* Can this be done here? COP_EINVAL, COP_ENOMEM. */
int cop__way_check(const struct cop_node *node,
                   const struct cop_stream_options *options);
/* Of the definition: how many bytes, at most, and these. 0 and nothing without a filter down. */
size_t cop__way_size(const struct cop_stream_options *options);
void cop__way_write(const struct cop_node *node,
                    const struct cop_stream_options *options,
                    struct cop__writer *writer);
/* False: there is no such filter, or no memory. */
bool cop__way_read(struct cop_node *node, struct cop__stream *stream,
                   struct cop__reader *reader);
/* When the back-ends are known: which way it is to this member. */
void cop__way_find(struct cop_node *node, struct cop__stream *stream);
void cop__way_free(struct cop__way *way);
/* Tells the back-end here what it is given of a packet, if anything. */
void cop__way_deliver(struct cop_node *node, const struct cop__stream *stream,
                      uint64_t number, struct cop_buf *bytes);

/* ---- inspect.c ------------------------------------------------------------------- */

void cop__stream_digest(const struct cop_node *node, struct cop__digest *digest);
const char *cop__stream_check(const struct cop_node *node);
size_t cop__stream_bytes(const struct cop_node *node);

#endif
