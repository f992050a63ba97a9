/* SPDX-License-Identifier: Apache-2.0 */
#include "term/commands.h"
#include "term/say.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef COPPICE_VERSION
#define COPPICE_VERSION "unknown"
#endif

static const struct command commands[] = {
#define COP_COMMAND_ROW(name, text) {#name, text, cmd_##name},
    COP_COMMANDS(COP_COMMAND_ROW)
#undef COP_COMMAND_ROW
        {0},
};
#define COMMANDS_COUNT (sizeof commands / sizeof *commands - 1)

static void print_help(void)
{
    printf("coppice %s: trees of processes that heal\n\n"
           "usage: coppice COMMAND [options] [operands]\n\n",
           COPPICE_VERSION);
    for (size_t i = 0; i < COMMANDS_COUNT; i++)
        printf("  %-10s %s\n", commands[i].name, commands[i].text);
    printf("\ncoppice help COMMAND says more; coppice --version prints the version.\n"
           "Begin with: coppice up -n 32; coppice probe; coppice down\n");
}

const struct command *command_first(void) { return commands; }

const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < COMMANDS_COUNT; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

/* ---- the closest match ----------------------------------------------------------- */

#define WORD_MAX 32

/* Levenshtein's distance of two short words, in one row. */
static size_t distance(const char *a, const char *b)
{
    size_t row[WORD_MAX + 1];
    size_t length = strlen(b);
    for (size_t j = 0; j <= length; j++)
        row[j] = j;
    for (size_t i = 0; a[i]; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < length; j++) {
            size_t change = diagonal + (a[i] != b[j]);
            size_t shorter = row[j] < row[j + 1] ? row[j] : row[j + 1];
            diagonal = row[j + 1];
            row[j + 1] = change < shorter + 1 ? change : shorter + 1;
        }
    }
    return row[length];
}

static int unknown_command(const char *name)
{
    const char *closest = NULL;
    size_t best = 3; /* further away than this is no help */
    if (strlen(name) <= WORD_MAX)
        for (size_t i = 0; i < COMMANDS_COUNT; i++) {
            size_t d = distance(commands[i].name, name);
            if (d < best && d < strlen(commands[i].name)) {
                best = d;
                closest = commands[i].name;
            }
        }
    if (closest)
        return fail(EXIT_USAGE, "no command '%s'; did you mean '%s'?", name, closest);
    return fail(EXIT_USAGE, "no command '%s'; coppice --help lists them", name);
}

/* ---- running one ----------------------------------------------------------------- */

static int run_help(int argc, char **argv)
{
    if (argc < 2) {
        print_help();
        return EXIT_DONE;
    }
    const struct command *command = command_find(argv[1]);
    if (command == NULL)
        return unknown_command(argv[1]);
    char flag[] = "--help";
    char *arguments[] = {argv[1], flag, NULL};
    return command->run(2, arguments);
}

static int run(int argc, char **argv)
{
    if (argc < 2)
        return fail(EXIT_USAGE, "a command is missing; coppice --help lists them");
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        print_help();
        return EXIT_DONE;
    }
    if (strcmp(name, "--version") == 0) {
        printf("coppice %s\n", COPPICE_VERSION);
        return EXIT_DONE;
    }
    if (strcmp(name, "help") == 0)
        return run_help(argc - 1, argv + 1);
    const struct command *command = command_find(name);
    if (command == NULL)
        return unknown_command(name);
    return command->run(argc - 1, argv + 1);
}

/*
 * Why output was lost. The stream only knows that it was, if that happened at an earlier flush:
 * then one more byte fails for the same reason. What it is added to has a gap already.
 */
static const char *find_reason(int error)
{
    if (error == 0 && write(STDOUT_FILENO, "\n", 1) < 0)
        error = errno;
    if (error == EBADF)
        return "it is closed";
    return error ? strerror(error) : "some of it is lost";
}

/* Output that did not reach the disk or the pipe was not a success. */
static int close_output(int code)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    if (errno == EPIPE)
        return code;
    return fail(EXIT_FAILED, "cannot write the output: %s", find_reason(errno));
}

/*
 * Who was started without one of them would take a socket for its output. In the place of
 * standard output comes what cannot be written to, so that output is not lost in silence.
 */
static void open_standard(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 &&
            open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_RDWR) < 0)
            exit(EXIT_FAILED);
}

int main(int argc, char **argv)
{
    open_standard();
    return close_output(run(argc, argv));
}
