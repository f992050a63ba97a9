/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PMI-1 as hydra (MPICH's mpiexec) speaks it: lines of key=value words over a descriptor that
 * the launcher left open, each answered by one line.
 *
 *   > cmd=init pmi_version=1 pmi_subversion=1     < cmd=response_to_init ... rc=0
 *   > cmd=get_my_kvsname                          < cmd=my_kvsname kvsname=kvs_1_0
 *   > cmd=put kvsname=K key=x value=y             < cmd=put_result rc=0 msg=success
 *   > cmd=barrier_in                              < cmd=barrier_out
 *   > cmd=get kvsname=K key=x                     < cmd=get_result rc=0 msg=success value=y
 *   > cmd=finalize                                < cmd=finalize_ack
 */
#include "boot/exchange.h"

#include <coppice/error.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_BYTES 2048u

/* ---- lines ----------------------------------------------------------------------- */

static int write_all(int fd, const char *text, size_t length)
{
    while (length > 0) {
        ssize_t done = write(fd, text, length);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return COP_EIO;
        text += done;
        length -= (size_t)done;
    }
    return 0;
}

/* A byte at a time: nothing that follows the line may be taken from the descriptor, which
 * MPI uses, too. There are few lines. */
static int read_line(int fd, char *out, size_t size)
{
    for (size_t length = 0; length + 1 < size;) {
        ssize_t done = read(fd, out + length, 1);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return COP_EIO;
        if (out[length] == '\n') {
            out[length] = '\0';
            return 0;
        }
        length++;
    }
    return COP_EIO;
}

/* The value of a word of a line, up to the next blank. */
static bool find_word(const char *line, const char *key, char *out, size_t size)
{
    size_t length = strlen(key);
    for (const char *at = line; *at != '\0';) {
        at += strspn(at, " ");
        size_t word = strcspn(at, " ");
        if (word > length && strncmp(at, key, length) == 0 && at[length] == '=') {
            size_t value = word - length - 1;
            if (value >= size)
                return false;
            memcpy(out, at + length + 1, value);
            out[value] = '\0';
            return true;
        }
        at += word;
    }
    return false;
}

/* Says a line and reads the answer, which must be `expected` and not an error. */
static int ask(struct cop__exchange *exchange, const char *line, const char *expected,
               char answer[LINE_MAX_BYTES], char *message, size_t size)
{
    char command[64], code[16];
    if (write_all(exchange->fd, line, strlen(line)) != 0 ||
        read_line(exchange->fd, answer, LINE_MAX_BYTES) != 0)
        return cop__exchange_fail(COP_EIO, message, size,
                                  "the launcher's PMI connection is broken");
    if (!find_word(answer, "cmd", command, sizeof command) ||
        strcmp(command, expected) != 0)
        return cop__exchange_fail(COP_EIO, message, size,
                                  "the launcher answered \"%.100s\" by PMI, not %s",
                                  answer, expected);
    if (find_word(answer, "rc", code, sizeof code) && strcmp(code, "0") != 0)
        return cop__exchange_fail(COP_EREFUSED, message, size,
                                  "the launcher refused by PMI: \"%.100s\"", answer);
    return 0;
}

/* ---- the protocol ---------------------------------------------------------------- */

static bool read_number(const char *name, uint32_t *out)
{
    const char *text = getenv(name);
    char *end;
    if (text == NULL || *text < '0' || *text > '9')
        return false;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno != 0 || *end != '\0' || value > 0x7fffffff)
        return false;
    *out = (uint32_t)value;
    return true;
}

static bool is_there(void)
{
    uint32_t number;
    return read_number("PMI_FD", &number) && read_number("PMI_RANK", &number) &&
           read_number("PMI_SIZE", &number);
}

/* "(vector,(0,1,4))": blocks of (first node, nodes, processes on each). */
static bool is_one_node(const char *mapping)
{
    unsigned first, nodes, each;
    int used = 0;
    bool is_any = false;
    if (sscanf(mapping, " (vector%n", &used) < 0 || used == 0)
        return false;
    for (mapping += used;; mapping += used) {
        used = 0;
        if (sscanf(mapping, ",(%u,%u,%u)%n", &first, &nodes, &each, &used) != 3 ||
            used == 0)
            break;
        if (first != 0 || nodes != 1)
            return false;
        is_any = true;
    }
    return is_any;
}

static int open_pmi(struct cop__exchange *exchange, char *message, size_t size)
{
    char answer[LINE_MAX_BYTES], line[LINE_MAX_BYTES], mapping[1024];
    uint32_t fd;
    if (!read_number("PMI_FD", &fd) || !read_number("PMI_RANK", &exchange->rank) ||
        !read_number("PMI_SIZE", &exchange->size) || exchange->rank >= exchange->size)
        return cop__exchange_fail(COP_ENOENT, message, size,
                                  "PMI_FD, PMI_RANK and PMI_SIZE do not fit together");
    exchange->fd = (int)fd;
    int error = ask(exchange, "cmd=init pmi_version=1 pmi_subversion=1\n",
                    "response_to_init", answer, message, size);
    if (error == 0)
        error =
            ask(exchange, "cmd=get_my_kvsname\n", "my_kvsname", answer, message, size);
    if (error)
        return error;
    if (!find_word(answer, "kvsname", exchange->job, sizeof exchange->job))
        return cop__exchange_fail(COP_EIO, message, size, "PMI gave the job no name");
    snprintf(line, sizeof line, "cmd=get kvsname=%s key=PMI_process_mapping\n",
             exchange->job);
    /* Not every launcher has it; then the processes may be anywhere. */
    exchange->is_local = ask(exchange, line, "get_result", answer, NULL, 0) == 0 &&
                         find_word(answer, "value", mapping, sizeof mapping) &&
                         is_one_node(mapping);
    return 0;
}

static int publish(struct cop__exchange *exchange, const char *word, char *message,
                   size_t size)
{
    char answer[LINE_MAX_BYTES], line[LINE_MAX_BYTES];
    snprintf(line, sizeof line, "cmd=put kvsname=%s key=coppice-%u value=%s\n",
             exchange->job, exchange->rank, word);
    int error = ask(exchange, line, "put_result", answer, message, size);
    return error ? error
                 : ask(exchange, "cmd=barrier_in\n", "barrier_out", answer, message,
                       size);
}

static int get(struct cop__exchange *exchange, uint32_t rank, char *out,
               size_t out_size, char *message, size_t size)
{
    char answer[LINE_MAX_BYTES], line[LINE_MAX_BYTES];
    snprintf(line, sizeof line, "cmd=get kvsname=%s key=coppice-%u\n", exchange->job,
             rank);
    int error = ask(exchange, line, "get_result", answer, message, size);
    if (error == 0 && !find_word(answer, "value", out, out_size))
        error = cop__exchange_fail(COP_EIO, message, size,
                                   "PMI has no word of process %u", rank);
    return error;
}

/* The descriptor stays open: MPI may need it, and the launcher ends the job if it is
 * closed. */
static void close_pmi(struct cop__exchange *exchange)
{
    char answer[LINE_MAX_BYTES];
    if (exchange->fd >= 0)
        (void)ask(exchange, "cmd=finalize\n", "finalize_ack", answer, NULL, 0);
    exchange->fd = -1;
}

const struct cop__exchange_protocol cop__exchange_pmi = {
    .name = "pmi",
    .is_there = is_there,
    .open = open_pmi,
    .publish = publish,
    .get = get,
    .close = close_pmi,
};
