/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_WIRE_MESSAGES_H
#define COP_WIRE_MESSAGES_H

#include "wire/codec.h"

/*
 * The one table of messages, and the one list of fields of each. They generate the
 * enum, the names, the structures, the codec, the size limits, the trace printer, the
 * statistics and the fuzzers.
 *
 *   M(NAME, name, number, class, most payload bytes, what it says)
 *
 * Classes: LINK frames never leave the driver; CONTROL overtakes BULK on a connection;
 * COMMAND is spoken between the command and its agent only.
 */
#define COP__FRAME_MAX (UINT32_C(1) << 20)

/* clang-format off */
#define COP__MESSAGES(M)                                                                   \
    M(HELLO, hello, 1, LINK, 1024, "who I am, and how many frames of yours I have")        \
    M(WELCOME, welcome, 2, LINK, 1024, "you are accepted; this is me, and my count")       \
    M(REFUSE, refuse, 3, LINK, 1024, "you are not accepted, and why")                      \
    M(NEWS, news, 16, CONTROL, COP__FRAME_MAX, "what I have heard of members")             \
    M(PING, ping, 17, CONTROL, 64, "how are you?")                                         \
    M(PONG, pong, 18, CONTROL, 64, "I am well")                                            \
    M(WITNESS, witness, 19, CONTROL, 64, "I cannot reach this one; can you?")              \
    M(WITNESSED, witnessed, 20, CONTROL, 64, "whether I can reach it")                     \
    M(GOSSIP, gossip, 21, CONTROL, COP__FRAME_MAX, "when I last heard of whom")            \
    M(RELAY, relay, 22, CONTROL, COP__FRAME_MAX, "this is for somebody whom you reach, and I do not") \
    M(JOIN, join, 24, CONTROL, 1024, "take me in; this is the view that I hold")           \
    M(WHOLE, whole, 25, CONTROL, COP__FRAME_MAX, "this is the view that I have installed") \
    M(SYNC, sync, 26, CONTROL, 256, "this is my view; what is yours?")                     \
    M(OUT, out, 27, CONTROL, 256, "this view is without you")                              \
    M(INVITE, invite, 28, CONTROL, 1024, "somebody of this name wants to join")            \
    M(INVITED, invited, 29, CONTROL, COP__FRAME_MAX, "its id would be this, in this view") \
    M(DRAIN, drain, 30, CONTROL, 64, "this one is to carry nobody, or is to again")        \
    M(ASK, ask, 32, CONTROL, COP__FRAME_MAX, "take part in this sweep, with your sub-tree") \
    M(ANSWER, answer, 33, CONTROL, COP__FRAME_MAX, "what my sub-tree says, and whom it covers") \
    M(TURN, turn, 34, CONTROL, COP__FRAME_MAX, "I lost my parent in this sweep; what now?") \
    M(OUTCOME, outcome, 35, CONTROL, COP__FRAME_MAX, "this is how the sweep ended")        \
    M(DONE, done, 36, CONTROL, 256, "this sweep is over here, or was never here")          \
    M(HOLD, hold, 37, CONTROL, COP__FRAME_MAX, "I have these already; answer in pieces")   \
    M(REFUSED, refused, 38, CONTROL, 256, "I cannot take part in this sweep, and why")     \
    M(LETTER, letter, 40, BULK, COP__FRAME_MAX, "a message of one member to another, sent in this view") \
    M(RECEIPT, receipt, 41, CONTROL, 256, "your messages up to this one were delivered")   \
    M(DATA, data, 48, BULK, COP__FRAME_MAX, "bytes that may wait")                         \
    M(VOTE, vote, 50, CONTROL, COP__FRAME_MAX, "what my sub-tree contributes to an agreement") \
    M(DECIDE, decide, 51, CONTROL, COP__FRAME_MAX, "what was agreed")                      \
    M(LOCK, lock, 52, CONTROL, COP__FRAME_MAX, "what will be agreed if everyone keeps it") \
    M(LOCKED, locked, 53, CONTROL, 64, "my sub-tree keeps it")                             \
    M(QUERY, query, 54, CONTROL, 64, "the coordinator is gone; have you decided?")         \
    M(STANDING, standing, 55, CONTROL, COP__FRAME_MAX, "what I have decided, or nothing")  \
    M(CALL, call, 56, CONTROL, COP__FRAME_MAX, "run this, with your sub-tree")             \
    M(RETURNED, returned, 57, CONTROL, COP__FRAME_MAX, "what came of it in my sub-tree")   \
    M(CANCEL, cancel, 58, CONTROL, 256, "that call is over; nobody waits for it")          \
    M(PULL, pull, 60, CONTROL, 64, "I have the bulk of that call up to here, and room up to there") \
    M(CHUNK, chunk, 61, BULK, COP__FRAME_MAX, "a piece of the bulk, or why there is none")  \
    M(NETWORK, network, 72, CONTROL, COP__FRAME_MAX, "what streams there are, and who attached anew") \
    M(ATTACH, attach, 73, CONTROL, COP__FRAME_MAX, "I have no parent in this network; be mine") \
    M(ADOPT, adopt, 74, CONTROL, COP__FRAME_MAX, "you are below me, and this is the way to the root") \
    M(DETACH, detach, 75, CONTROL, 64, "I am not above you, or not below you")             \
    M(PATH, path, 76, CONTROL, COP__FRAME_MAX, "the way to the root is another one")       \
    M(WAVE, wave, 77, CONTROL, COP__FRAME_MAX, "the state of my sub-tree, or what changed in it") \
    M(CREDIT, credit, 78, CONTROL, 64, "the front-end has taken waves up to this one")     \
    M(DOWN, down, 79, CONTROL, COP__FRAME_MAX, "a packet of the front-end")                \
    M(GOT, got, 80, CONTROL, 64, "all below me have packets up to this one")               \
    M(COMMAND, command, 64, COMMAND, COP__FRAME_MAX, "do this for me")                     \
    M(REPLY, reply, 65, COMMAND, COP__FRAME_MAX, "what came of it")

/* Fields: U8 U16 U32 U64 (name); BYTES (name): 32-bit length and bytes;
 * LIST (name, element): 32-bit count and elements of fixed size, see codec.h. */
#define COP__FIELDS_hello(U8, U16, U32, U64, BYTES, LIST)                                  \
    U8(major) U8(minor) U16(features) U64(cluster_hi) U64(cluster_lo) U64(instance)        \
    U32(sender) U32(receiver) U64(incarnation) U64(received) U64(peer_incarnation)
#define COP__FIELDS_welcome(U8, U16, U32, U64, BYTES, LIST)                                \
    U8(major) U8(minor) U16(features) U32(sender) U64(incarnation) U64(received)           \
    U64(peer_incarnation)
#define COP__FIELDS_refuse(U8, U16, U32, U64, BYTES, LIST)                                 \
    U8(major) U8(minor) U16(reason) BYTES(text)
#define COP__FIELDS_news(U8, U16, U32, U64, BYTES, LIST) LIST(beliefs, belief)

#define COP__FIELDS_ping(U8, U16, U32, U64, BYTES, LIST) U32(number) U32(late_us)
#define COP__FIELDS_pong(U8, U16, U32, U64, BYTES, LIST) U32(number) U32(late_us)
#define COP__FIELDS_witness(U8, U16, U32, U64, BYTES, LIST)                                \
    U64(token) U32(suspect) U64(incarnation) U64(patience_ns)
#define COP__FIELDS_witnessed(U8, U16, U32, U64, BYTES, LIST)                              \
    U64(token) U32(suspect) U8(reached)
#define COP__FIELDS_gossip(U8, U16, U32, U64, BYTES, LIST) U64(cycle) LIST(pulses, pulse)
#define COP__FIELDS_relay(U8, U16, U32, U64, BYTES, LIST) BYTES(frame)

#define COP__FIELDS_join(U8, U16, U32, U64, BYTES, LIST)                                   \
    U64(epoch) U32(root) U64(incarnation) U8(spare) BYTES(card)
#define COP__FIELDS_whole(U8, U16, U32, U64, BYTES, LIST) BYTES(view)
#define COP__FIELDS_sync(U8, U16, U32, U64, BYTES, LIST)                                   \
    U64(epoch) U32(root) U64(incarnation) U64(acked)
#define COP__FIELDS_out(U8, U16, U32, U64, BYTES, LIST)                                    \
    U64(epoch) U32(root) U64(incarnation)
#define COP__FIELDS_invite(U8, U16, U32, U64, BYTES, LIST)                                 \
    U64(token) U64(incarnation) BYTES(name)
#define COP__FIELDS_invited(U8, U16, U32, U64, BYTES, LIST)                                \
    U64(token) U32(status) BYTES(invitation)

#define COP__FIELDS_drain(U8, U16, U32, U64, BYTES, LIST)                                  \
    U32(member) U64(incarnation) U8(on)

#define COP__FIELDS_ask(U8, U16, U32, U64, BYTES, LIST)                                    \
    U32(initiator) U64(incarnation) U64(sequence) U64(mark) U64(epoch) U64(left_ns)        \
    U64(hop_ns) U8(protocol) U8(flags) U8(shape) U8(inner) U32(arity) U32(members) BYTES(payload)
#define COP__FIELDS_answer(U8, U16, U32, U64, BYTES, LIST)                                 \
    U32(initiator) U64(incarnation) U64(sequence) U64(mark) U64(floor) U8(flags)           \
    BYTES(parts) LIST(lost, belief)
#define COP__FIELDS_turn(U8, U16, U32, U64, BYTES, LIST)                                   \
    U32(initiator) U64(incarnation) U64(sequence) U64(mark)                                \
    LIST(lineage, belief)
#define COP__FIELDS_outcome(U8, U16, U32, U64, BYTES, LIST)                                \
    U32(initiator) U64(incarnation) U64(sequence) U64(mark) U32(status) BYTES(payload)
#define COP__FIELDS_done(U8, U16, U32, U64, BYTES, LIST)                                   \
    U32(initiator) U64(incarnation) U64(sequence) U64(mark)
#define COP__FIELDS_hold(U8, U16, U32, U64, BYTES, LIST)                                   \
    U32(initiator) U64(incarnation) U64(sequence) U64(mark) LIST(cover, mark)

#define COP__FIELDS_refused(U8, U16, U32, U64, BYTES, LIST)                                \
    U32(initiator) U64(incarnation) U64(sequence) U64(mark) U32(status)

#define COP__FIELDS_call(U8, U16, U32, U64, BYTES, LIST)                                   \
    U32(root) U64(incarnation) U64(number) BYTES(call)
#define COP__FIELDS_returned(U8, U16, U32, U64, BYTES, LIST)                               \
    U32(root) U64(incarnation) U64(number) U8(more) U64(spent_ns) BYTES(record)
#define COP__FIELDS_cancel(U8, U16, U32, U64, BYTES, LIST)                                 \
    U32(root) U64(incarnation) U64(number)

#define COP__FIELDS_pull(U8, U16, U32, U64, BYTES, LIST)                                   \
    U32(root) U64(incarnation) U64(number) U32(next) U32(limit) U8(flags)
#define COP__FIELDS_chunk(U8, U16, U32, U64, BYTES, LIST)                                  \
    U32(root) U64(incarnation) U64(number) U32(index) U8(what) U32(status) BYTES(data)
#define COP__FIELDS_letter(U8, U16, U32, U64, BYTES, LIST)                                 \
    U64(number) U64(epoch) U32(root) U64(incarnation) U8(channel) BYTES(bytes)
/* again: what came after this one was not kept, and is wanted again. */
#define COP__FIELDS_receipt(U8, U16, U32, U64, BYTES, LIST) U64(number) U8(again)
#define COP__FIELDS_data(U8, U16, U32, U64, BYTES, LIST) U64(stream) BYTES(payload)

#define COP__FIELDS_vote(U8, U16, U32, U64, BYTES, LIST)                                   \
    U64(group) U64(number) U64(round) U64(digest) U8(flags) U8(type) U32(op) U32(status)   \
    BYTES(value) BYTES(held) LIST(lost, belief)
#define COP__FIELDS_decide(U8, U16, U32, U64, BYTES, LIST)                                 \
    U64(group) U64(number) U64(round) U32(root) U64(epoch) U32(status) BYTES(value)        \
    LIST(failed, rank)
#define COP__FIELDS_lock(U8, U16, U32, U64, BYTES, LIST)                                   \
    U64(group) U64(number) U64(round) BYTES(decision)
#define COP__FIELDS_locked(U8, U16, U32, U64, BYTES, LIST)                                 \
    U64(group) U64(number) U64(round)
#define COP__FIELDS_query(U8, U16, U32, U64, BYTES, LIST)                                  \
    U64(group) U64(number) U64(round)
#define COP__FIELDS_standing(U8, U16, U32, U64, BYTES, LIST)                               \
    U64(group) U64(number) U64(round) BYTES(decision)

#define COP__FIELDS_network(U8, U16, U32, U64, BYTES, LIST)                                \
    U64(network) U8(invite) BYTES(news)
#define COP__FIELDS_attach(U8, U16, U32, U64, BYTES, LIST)                                 \
    U64(network) U64(number) BYTES(news) BYTES(places)
#define COP__FIELDS_adopt(U8, U16, U32, U64, BYTES, LIST)                                  \
    U64(network) U64(number) U64(regeneration) LIST(path, rank) BYTES(news) BYTES(places)
#define COP__FIELDS_detach(U8, U16, U32, U64, BYTES, LIST) U64(network) U64(number)
#define COP__FIELDS_path(U8, U16, U32, U64, BYTES, LIST)                                   \
    U64(network) U64(regeneration) LIST(path, rank)
#define COP__FIELDS_wave(U8, U16, U32, U64, BYTES, LIST)                                   \
    U64(stream) U64(wave) U64(got) U8(flags) BYTES(state) BYTES(rest)
#define COP__FIELDS_credit(U8, U16, U32, U64, BYTES, LIST)                                 \
    U64(stream) U64(mark) U64(down_mark)
#define COP__FIELDS_down(U8, U16, U32, U64, BYTES, LIST)                                   \
    U64(stream) U64(number) U64(mark) U64(down_mark) BYTES(bytes)
#define COP__FIELDS_got(U8, U16, U32, U64, BYTES, LIST) U64(stream) U64(number) U64(got)

#define COP__FIELDS_command(U8, U16, U32, U64, BYTES, LIST)                                \
    U64(token) U16(verb) BYTES(body)
#define COP__FIELDS_reply(U8, U16, U32, U64, BYTES, LIST)                                  \
    U64(token) U32(status) U8(more) BYTES(body)

/* clang-format on */

enum cop__kind {
#define COP__KIND_ENUM(NAME, name, number, class, most, text) COP__KIND_##NAME = number,
    COP__MESSAGES(COP__KIND_ENUM)
#undef COP__KIND_ENUM
};

/* Dense index of a kind, for tables; COP__KINDS for an unknown one. */
enum cop__kind_index {
#define COP__KIND_INDEX(NAME, name, number, class, most, text) COP__INDEX_##NAME,
    COP__MESSAGES(COP__KIND_INDEX)
#undef COP__KIND_INDEX
        COP__KINDS
};

enum cop__class {
    COP__CLASS_LINK,
    COP__CLASS_CONTROL,
    COP__CLASS_BULK,
    COP__CLASS_COMMAND
};

struct cop__kind_info {
    const char *name;
    const char *text;
    uint16_t kind;
    enum cop__class class;
    uint32_t least; /* payload bytes */
    uint32_t most;
};

/* NULL for an unknown kind. */
const struct cop__kind_info *cop__kind_info(uint16_t kind);
enum cop__kind_index cop__kind_index(uint16_t kind);
const struct cop__kind_info *cop__kind_at(enum cop__kind_index index);

#define COP__STRUCT_INT8(name) uint8_t name;
#define COP__STRUCT_INT16(name) uint16_t name;
#define COP__STRUCT_INT32(name) uint32_t name;
#define COP__STRUCT_INT64(name) uint64_t name;
#define COP__STRUCT_BYTES(name) struct cop__bytes name;
#define COP__STRUCT_LIST(name, element) struct cop__list name;

/*
 * For each message: struct cop__msg_NAME, and
 *   cop__encode_NAME  a new buffer with the payload, or NULL (no memory)
 *   cop__decode_NAME  0 or COP_EMALFORMED; bytes and lists point into the input
 */
#define COP__DECLARE(NAME, name, number, class, most, text)                            \
    struct cop__msg_##name {                                                           \
        COP__FIELDS_##name(COP__STRUCT_INT8, COP__STRUCT_INT16, COP__STRUCT_INT32,     \
                           COP__STRUCT_INT64, COP__STRUCT_BYTES, COP__STRUCT_LIST)     \
    };                                                                                 \
    struct cop_buf *cop__encode_##name(const struct cop__msg_##name *message);         \
    int cop__decode_##name(const uint8_t *data, size_t length,                         \
                           struct cop__msg_##name *out);
COP__MESSAGES(COP__DECLARE)
#undef COP__DECLARE

/*
 * One line for a trace, e.g. "ask initiator=0 sequence=3 mark=2 ..."; a malformed
 * payload prints as such. Returns the length as snprintf does.
 */
int cop__print_message(uint16_t kind, const uint8_t *data, size_t length, char *out,
                       size_t size);

#endif
