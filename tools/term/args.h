/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_TERM_ARGS_H
#define COP_TOOLS_TERM_ARGS_H

#include <coppice/types.h>

/*
 * Command lines from one table: it drives the parsing, the messages and --help, so that
 * they cannot differ. Long options take "--x V" and "--x=V", short ones "-x V" and
 * "-xV"; "--" ends the options. Every mistake is one line and EXIT_USAGE.
 */
enum args_kind {
    ARGS_FLAG,     /* bool */
    ARGS_TEXT,     /* const char *, borrowed from argv */
    ARGS_NUMBER,   /* uint64_t within [least, most] */
    ARGS_DURATION, /* cop_time */
};

/* In the order in which a table is written. */
/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
struct args_option {
    char letter;       /* 0 if it has none */
    const char *name;  /* without the dashes; NULL ends the table */
    const char *value; /* what the help calls it; NULL for flags */
    const char *text;
    enum args_kind kind;
    void *target; /* written when the option is there; holds the default before */
    uint64_t least, most;
};

struct args {
    const char *name;  /* of the sub-command */
    const char *usage; /* what follows the name, e.g. "[options] MEMBER..." */
    const char *text;  /* a paragraph for the help */
    const struct args_option *options;
    int least, most; /* how many operands there may be */
    char **operands; /* filled: in argv's own memory, in their order */
    int count;
    uint64_t typed; /* filled: a bit for each of the first 64 options of the table */
};

/*
 * True: go on. False: the command ends with *code, because the help was printed (0) or
 * something is wrong (EXIT_USAGE).
 */
bool args_parse(struct args *args, int argc, char **argv, int *code);

/* The first option that was typed and is not among `names` (blanks between, with the
 * dashes: " --swarm --seeds "); NULL if there is none. */
const char *args_first_but(const struct args *args, const char *names);

/* Options that not every one of several ways takes; a name of NULL ends the table. */
struct args_way {
    const char *name; /* of the option */
    const char *ways; /* which ones take it, as people read it: "probe or coll" */
};
/* The first option that was typed and that `way` does not take; NULL if there is none. */
const struct args_way *args_first_astray(const struct args *args,
                                         const struct args_way *table, const char *way);

#endif
