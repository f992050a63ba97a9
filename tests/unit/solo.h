/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TESTS_SOLO_H
#define COP_TESTS_SOLO_H

#include "node/node.h"
#include "view/view.h"
#include "wire/messages.h"

#include <coppice/stream.h>

/*
 * One real node whose view can change, and nobody else: the test says what the others say.
 * Invariants are checked after every step. What the node wanted is kept until solo_forget.
 */
#define SOLO_ITEMS 8192u

struct solo {
    struct cop_node *node;
    struct cop_view *view;
    struct cop_stats stats;
    struct cop_effects effects;
    cop_time now;
    struct cop_effect items[SOLO_ITEMS];
    uint32_t item_count;
    int failed;
};

/* Member `self` of `n`, with its first tick done. */
struct solo *solo_create(uint32_t n, cop_id self, const struct cop_detect *detect,
                         enum cop_quorum quorum);
/* The quorum is whoever has all of `ids` (V10), which are sorted. */
struct solo *solo_create_named(uint32_t n, cop_id self, const cop_id *ids,
                               uint32_t count);
/* Member 0, with a guard (V17), and nothing else in its way. */
struct solo *solo_create_guarded(uint32_t n, uint32_t guard);
/* With filters of its own; the rest as by default. */
struct solo *solo_create_filtering(uint32_t n, cop_id self,
                                   const struct cop_filter *const *filters,
                                   uint32_t count);
void solo_destroy(struct solo *solo);
int solo_event(struct solo *solo, struct cop_event *event);
/* Lets time pass, with a TICK at each deadline on the way. */
void solo_run(struct solo *solo, cop_time until);
/* Takes over the reference to `payload`. */
void solo_recv(struct solo *solo, cop_id from, enum cop__kind kind,
               struct cop_buf *payload);
void solo_down(struct solo *solo, cop_id peer, enum cop_down why);
/* `from` says the next view: that of now with this entry. */
void solo_change(struct solo *solo, struct cop__entry entry, cop_id from);
/* The same: that of now without `gone`, which was removed or has left. */
void solo_without(struct solo *solo, cop_id gone, enum cop_presence how, cop_id from);
void solo_forget(struct solo *solo);
/* How many frames of a kind it sent, to `peer` or (NONE) to anybody; and the i-th. */
uint32_t solo_sent(const struct solo *solo, enum cop__kind kind, cop_id peer);
const struct cop_effect *solo_frame(const struct solo *solo, enum cop__kind kind,
                                    uint32_t i);
uint32_t solo_effects(const struct solo *solo, enum cop_effect_kind kind, cop_id peer);
/* Answers the last PING to `peer`. */
void solo_pong(struct solo *solo, cop_id peer);
bool solo_suspects(const struct solo *solo, cop_id id);
/* How often the last step told this of a stream. */
uint32_t solo_tells(const struct solo *solo, enum cop_stream_event_kind kind);
/* By what members name a stream. */
uint64_t solo_stream_key(const struct solo *solo, uint64_t number);
/* For a message; `bytes` is the memory of it. */
struct cop__list solo_list_ids(const cop_id *ids, uint32_t count, uint8_t *bytes);

#endif
