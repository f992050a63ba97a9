/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COPPICE_ERROR_H
#define COPPICE_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Every function that can fail returns an int: 0, or one of the negative codes below.
 * There is one list; the enum, the names and the sentences all come from it.
 *
 *   X(NAME, value, sentence for a person, what the caller should do next)
 */
/* clang-format off */
#define COP_ERRORS(X)                                                                    \
    X(ENOMEM, -1, "out of memory", "free memory, or end the node: its peers heal")       \
    X(EINVAL, -2, "invalid argument", "correct the call")                                \
    X(ERANGE, -3, "value out of range", "use a value within the documented bounds")      \
    X(EMALFORMED, -4, "malformed bytes", "drop the frame and count it")                  \
    X(EVERSION, -5, "protocol version not understood", "upgrade the older side")         \
    X(EKIND, -6, "unknown message kind", "drop the frame and count it")                  \
    X(ETOOBIG, -7, "larger than the limit", "send less, or in pieces")                   \
    X(EAGAIN, -8, "too much in flight", "wait for a completion, then try again")         \
    X(ETIMEDOUT, -9, "deadline passed", "use the partial result, or ask again")          \
    X(ELOST, -10, "peer is lost", "go on without it")                                    \
    X(EABORTED, -11, "aborted by its initiator", "nothing; the request is over")         \
    X(ENOENT, -12, "no such thing", "check the name")                                    \
    X(EEXIST, -13, "already there", "choose another name")                               \
    X(EREFUSED, -14, "refused", "see the message beside it")                             \
    X(EIO, -15, "input or output failed", "see errno in the message beside it")          \
    X(ESTATE, -16, "not possible in this state", "see the function's documentation")     \
    X(EBUG, -17, "an invariant does not hold", "report it with the trace")               \
    X(EREMOVED, -18, "this member was removed from the view", "join again, as a new life") \
    X(EDEGRADED, -19, "too few members are reachable", "wait until the others are back") \
    X(UNDECIDED, -20, "agreed that nothing was decided", "call again")                   \
    X(UNCERTAIN, -21, "nobody who lives knows whether it was decided", "end what depends on it, or use another algorithm")

/* clang-format on */

enum cop_error {
    COP_OK = 0,
#define COP_ERROR_ENUM(name, value, text, advice) COP_##name = value,
    COP_ERRORS(COP_ERROR_ENUM)
#undef COP_ERROR_ENUM
};

/* The sentence for a code, e.g. "out of memory"; "success" for 0, "unknown error" for
 * others. */
const char *cop_strerror(int error);

/* The name of a code, e.g. "COP_ENOMEM"; "COP_OK" for 0, "unknown" for others. */
const char *cop_error_name(int error);

/* What a caller should do next, from the same list; "" for 0 and for others. */
const char *cop_error_advice(int error);

#ifdef __cplusplus
}
#endif

#endif
