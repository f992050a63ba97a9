/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_HOSTS_SSH_H
#define COP_TOOLS_HOSTS_SSH_H

#include "talk/client.h"

#include <sys/types.h>

/*
 * The system's ssh client: one command at each of many hosts, so many at a time, and a
 * connection that goes through it. ssh is never to ask anything (BatchMode), so a host that
 * is not known or wants a password is an error with ssh's own words. Secrets go by standard
 * input; on the other side's command line is only what anybody may read.
 */
#define SSH_WORDS_MAX 64u
/* ssh's own exit status, when it did not come as far as the command. */
#define SSH_STATUS_FAILED 255

struct ssh {
    char text[512];                 /* as it was typed, with 0 for spaces */
    char *words[SSH_WORDS_MAX + 1]; /* in it */
};

/* Splits "ssh -p 2222" at spaces. COP_EINVAL with a sentence. */
int ssh_parse(const char *text, struct ssh *out, char *message, size_t size);

/* One command at one host. */
struct ssh_job {
    const char *user; /* "": ssh decides */
    const char *host;
    char *command;     /* for the shell there (ssh_quote); owned */
    const char *input; /* what it reads; NULL: nothing */
    size_t input_length;
    /* Filled: */
    int status;       /* what it exited with; SSH_STATUS_FAILED also if it was killed */
    char first[256];  /* the first line that it wrote */
    char output[512]; /* the last one */
    char
        error[400]; /* the last on standard error; where there is none, what happened */
};

/*
 * Words for a POSIX shell, each in quotes, with blanks between; the last is NULL. To be
 * freed; NULL: no memory.
 */
char *ssh_quote(const char *const *words);

/*
 * Runs all jobs, `fanout` at a time, each for `timeout_ns` at most. `what` is for the line
 * that shows how far it is. 0; COP_EABORTED after SIGINT or SIGTERM: those that had not
 * ended by then were killed, and the others never begun.
 */
int ssh_run(const struct ssh *ssh, struct ssh_job *jobs, uint32_t count,
            uint32_t fanout, cop_time timeout_ns, const char *what);
/* Gives back what the jobs own. */
void ssh_jobs_free(struct ssh_job *jobs, uint32_t count);

/*
 * A connection to whatever `command` connects its standard input and output with, once it
 * has said so in a line of its own, SSH_CONNECTED. 0; COP_ENOENT with ssh's last words.
 */
#define SSH_CONNECTED "coppice-host connected"
int ssh_connect(const struct ssh *ssh, const char *user, const char *host,
                const char *command, struct client *out, char *message, size_t size);

#endif
