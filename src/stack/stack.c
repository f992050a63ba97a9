/* SPDX-License-Identifier: Apache-2.0 */
#include "agree/agree.h"
#include "coll/coll.h"
#include "detect/detect.h"
#include "letter/letter.h"
#include "member/member.h"
#include "probe/probe.h"
#include "roster/roster.h"
#include "stream/stream.h"
#include "sweep/sweep.h"

/*
 * The layers of a node, from the bottom up, and who handles which message. This is the
 * one place that knows all of them.
 */

#define PROTOCOLS 3u

static const struct cop__protocol *const protocols[PROTOCOLS] = {
    [COP__PROBE_PROTOCOL] = &cop__probe_protocol,
    [COP__MEMBER_PROTOCOL] = &cop__member_protocol,
    [COP__COLL_PROTOCOL] = &cop__coll_protocol,
};

static const struct cop__stack stack = {
    .layers =
        {
            [COP__SLOT_ROSTER] = &cop__roster_layer,
            [COP__SLOT_DETECT] = &cop__detect_layer,
            [COP__SLOT_SWEEP] = &cop__sweep_layer,
            [COP__SLOT_MEMBER] = &cop__member_layer,
            [COP__SLOT_LETTER] = &cop__letter_layer,
            [COP__SLOT_AGREE] = &cop__agree_layer,
            [COP__SLOT_STREAM] = &cop__stream_layer,
            [COP__SLOT_PROBE] = &cop__probe_layer,
            [COP__SLOT_COLL] = &cop__coll_layer,
        },
    .handlers =
        {
            [COP__INDEX_NEWS] = cop__on_news,
            [COP__INDEX_PING] = cop__on_ping,
            [COP__INDEX_PONG] = cop__on_pong,
            [COP__INDEX_WITNESS] = cop__on_witness,
            [COP__INDEX_WITNESSED] = cop__on_witnessed,
            [COP__INDEX_GOSSIP] = cop__on_gossip,
            [COP__INDEX_RELAY] = cop__on_relay,
            [COP__INDEX_JOIN] = cop__on_join,
            [COP__INDEX_WHOLE] = cop__on_whole,
            [COP__INDEX_SYNC] = cop__on_sync,
            [COP__INDEX_OUT] = cop__on_out,
            [COP__INDEX_INVITE] = cop__on_invite,
            [COP__INDEX_INVITED] = cop__on_invited,
            [COP__INDEX_DRAIN] = cop__on_drain,
            [COP__INDEX_LETTER] = cop__on_letter,
            [COP__INDEX_RECEIPT] = cop__on_receipt,
            [COP__INDEX_VOTE] = cop__on_vote,
            [COP__INDEX_DECIDE] = cop__on_decide,
            [COP__INDEX_LOCK] = cop__on_lock,
            [COP__INDEX_LOCKED] = cop__on_locked,
            [COP__INDEX_QUERY] = cop__on_query,
            [COP__INDEX_STANDING] = cop__on_standing,
            [COP__INDEX_ASK] = cop__on_ask,
            [COP__INDEX_ANSWER] = cop__on_answer,
            [COP__INDEX_TURN] = cop__on_turn,
            [COP__INDEX_OUTCOME] = cop__on_outcome,
            [COP__INDEX_DONE] = cop__on_done,
            [COP__INDEX_HOLD] = cop__on_hold,
            [COP__INDEX_REFUSED] = cop__on_refused,
            [COP__INDEX_CALL] = cop__on_call,
            [COP__INDEX_RETURNED] = cop__on_returned,
            [COP__INDEX_CANCEL] = cop__on_cancel,
            [COP__INDEX_PULL] = cop__on_pull,
            [COP__INDEX_CHUNK] = cop__on_chunk,
            [COP__INDEX_NETWORK] = cop__on_network,
            [COP__INDEX_ATTACH] = cop__on_attach,
            [COP__INDEX_ADOPT] = cop__on_adopt,
            [COP__INDEX_DETACH] = cop__on_detach,
            [COP__INDEX_PATH] = cop__on_path,
            [COP__INDEX_WAVE] = cop__on_wave,
            [COP__INDEX_CREDIT] = cop__on_credit,
            [COP__INDEX_DOWN] = cop__on_down,
            [COP__INDEX_GOT] = cop__on_got,
        },
    .admit = cop__member_admit,
    .protocols = protocols,
    .protocol_count = PROTOCOLS,
};

int cop_node_create(const struct cop_config *config, struct cop_node **out)
{
    struct cop_node *node;
    int error = cop__node_create(config, &stack, &node);
    if (error)
        return error;
    error = cop__coll_register(node, config->services, config->service_count);
    if (error)
        cop_node_destroy(node);
    else
        *out = node;
    return error;
}
