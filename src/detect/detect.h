/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_DETECT_DETECT_H
#define COP_DETECT_DETECT_H

#include "node/node.h"

/*
 * Turns evidence into suspicions, and carries the news.
 *
 * The detector that is always on is the simplest that is right: a connection that closes
 * is tried again, and one that is then refused is a death (D1). Silence is not (D2): it is
 * tried again later. Where views change others can be added (struct cop_detect):
 *   ring.c     my neighbour in a ring does not answer (D5, D6)
 *   witness.c  whom I accuse others must not reach either (D7)
 *   senses.c   one timer for all; doubt about myself (D8)
 *   gossip.c   nobody has heard of it for long (D12, D13)
 *   inquire.c  somebody asks about somebody (D9)
 *   look.c     the question that all of them ask
 *   record.c   what is remembered (D10)
 *
 * News floods over the tree of the view, repaired by what each node knows (D3): what
 * changed goes to my neighbours, and a new neighbour is told everything. Who accuses
 * tells the accused, and so does whoever hears from a suspect (D4), so that one who
 * lives can deny it.
 */
extern const struct cop__layer cop__detect_layer;

/* Changes within this time travel together. */
#define COP__NEWS_DELAY COP_MSEC
/* Where views change, the next one says who my neighbours are; if none comes by then, I find
 * them by what I know. */
#define COP__NEIGHBOURS_DELAY (UINT64_C(100) * COP_MSEC)
/* After silence a watched peer is tried again. */
#define COP__RETRY_DELAY COP_SEC

/*
 * Where views change (V-rules), news does not flood: the layer that makes views carries it to
 * the root, and its proposals tell everyone else.
 */

/* Whether I have found out myself that `id` is gone: what others say is no proof. */
bool cop__detect_has_found(const struct cop_node *node, cop_id id);
/* Somebody outside knows that it is gone. */
void cop__detect_accuse(struct cop_node *node, cop_id id);
/* Finds out about a suspect: it is among the found, or denies. Nothing where no detector
 * is on that finds silence. */
void cop__detect_verify(struct cop_node *node, cop_id id);
/* The same of one that somebody outside says is gone, whatever detectors are on: it has a deadline
 * of the ring (D6) to deny. */
void cop__detect_verify_report(struct cop_node *node, cop_id id);
/* I wait for what this member does: it is accused if it does not answer. The same. */
void cop__detect_rely(struct cop_node *node, cop_id id);
/* A member was heard, whatever it said. */
void cop__detect_hear(struct cop_node *node, cop_id id);
/* D13: whether I say nothing yet, so that my former life is found dead. */
bool cop__detect_is_stealthy(const struct cop_node *node);
/* What comes meanwhile, and is not taken in: an accusation is denied later. */
void cop__detect_hear_in_stealth(struct cop_node *node, const struct cop_frame *frame);
/* Whether a detector is on that finds it. */
bool cop__detect_finds_silence(const struct cop_node *node);
/* Whether nobody answers me: I cannot tell their deaths from mine. */
bool cop__detect_is_cut_off(const struct cop_node *node);
/* V19: until then nobody else has to confirm what I find; 0: somebody has, as ever. */
void cop__detect_go_on(struct cop_node *node, cop_time until);
/* This life is over: nobody is asked or accused any more. */
void cop__detect_stop(struct cop_node *node);
/* Tells a suspect, once, what is said of it. */
void cop__detect_tell_suspect(struct cop_node *node, cop_id id);
/* The same for `limit` of those in the view; true if there are more. */
bool cop__detect_tell_suspects(struct cop_node *node, uint32_t limit);
/* What they were told is told again. */
void cop__detect_forget_told(struct cop_node *node);
/* Sends what I hold of `ids` (NULL: of everyone) to `to`. */
void cop__detect_send_news(struct cop_node *node, cop_id to,
                           const struct cop_ranks *ids);

/* Sends all that I hold to my neighbours in the tree. */
void cop__detect_tell_neighbours(struct cop_node *node);

bool cop__detect_admit(struct cop_node *node, const struct cop_header *header);
cop__handler cop__on_news, cop__on_ping, cop__on_pong, cop__on_witness,
    cop__on_witnessed, cop__on_gossip;

#endif
