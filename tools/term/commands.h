/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_TERM_COMMANDS_H
#define COP_TOOLS_TERM_COMMANDS_H

/*
 * The sub-commands, one file each: cmd_NAME.c. argv[0] is the name of the sub-command.
 * Each returns the exit code of the process and has said why, in one line on standard
 * error, if that is not 0. All of them understand --help.
 */
enum exit_code {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,     /* failed, or done in part */
    EXIT_USAGE = 2,      /* the command line or the configuration is wrong */
    EXIT_NO_CLUSTER = 3, /* no such cluster or agent */
    EXIT_REFUSED = 4,    /* degraded or refused */
    EXIT_CANCELLED = 130,
};

/* X(name, one line about it), in the order of `coppice --help`. */
#define COP_COMMANDS(X)                                                                \
    X(up, "start a cluster of processes on this machine, or on hosts")                 \
    X(ps, "list the members of a local cluster")                                       \
    X(probe, "ask every member in a tree, and say who answered")                       \
    X(bcast, "send every member some bytes, and say who has them")                     \
    X(exec, "run a command at every member, and fold what it says")                    \
    X(put, "give every member a file")                                                 \
    X(agree, "have all members agree on a value, while some may die")                  \
    X(stream, "have processes give numbers and die, and check what comes out")         \
    X(group, "name sets of members")                                                   \
    X(view, "show who is in the cluster, and what has changed")                        \
    X(events, "show who was suspected by whom and why, and what came of it")           \
    X(join, "start a new member, which joins a cluster")                               \
    X(leave, "have members leave with a goodbye")                                      \
    X(report, "tell the cluster that a member is dead")                                \
    X(drain, "make ready for members to go for a while")                               \
    X(kill, "send members a signal: KILL, STOP or CONT")                               \
    X(restart, "start dead members again")                                             \
    X(down, "stop a cluster that was started here")                                    \
    X(demo, "a tour: services on a cluster that loses its root, and heals")            \
    X(tree, "draw a tree of any shape, also with dead members")                        \
    X(sim, "run many nodes in one process on virtual time")                            \
    X(explore, "try every order of events of a small cluster")                         \
    X(model, "predict the time of a membership change")                                \
    X(bench, "measure probes against bare sockets on this machine")                    \
    X(key, "make, check and change the key of a cluster")                              \
    X(top, "show load, memory and network of hosts as one")                            \
    X(stacks, "show where processes are: call stacks as one tree")                     \
    X(filter, "list filters of streams, and check that they keep their laws")          \
    X(agent, "run one member")                                                         \
    X(host, "what runs at each host of a cluster on hosts")                            \
    X(config, "print the settings in force, and where they come from")                 \
    X(completion, "print a script that completes command lines in a shell")

#define COP_COMMAND_DECLARE(name, text) int cmd_##name(int argc, char **argv);
COP_COMMANDS(COP_COMMAND_DECLARE)
#undef COP_COMMAND_DECLARE

struct command {
    const char *name; /* NULL ends the table */
    const char *text;
    int (*run)(int argc, char **argv);
};
/* The table of all, and the one of a name; NULL. */
const struct command *command_first(void);
const struct command *command_find(const char *name);

/* `bench contention` and `bench tls`, which have options of their own. */
int cmd_bench_contention(int argc, char **argv);
/* `bench ts`, too. */
int cmd_bench_ts(int argc, char **argv);
int cmd_bench_tls(int argc, char **argv);
int cmd_bench_rpc(int argc, char **argv);
int cmd_bench_agree(int argc, char **argv);
int cmd_bench_exec(int argc, char **argv);
int cmd_bench_stream(int argc, char **argv);
int cmd_bench_recovery(int argc, char **argv);
int cmd_bench_bcast(int argc, char **argv);
int cmd_bench_bulk(int argc, char **argv);
/* And `model bcast`. */
int cmd_model_bcast(int argc, char **argv);

#endif
