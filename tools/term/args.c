/* SPDX-License-Identifier: Apache-2.0 */
#include "term/args.h"

#include "complete/complete.h"
#include "term/commands.h"
#include "term/say.h"

#include <coppice/error.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void print_help(const struct args *args)
{
    printf("usage: coppice %s %s\n\n%s\n\noptions:\n", args->name, args->usage,
           args->text);
    for (const struct args_option *o = args->options; o->name; o++) {
        char left[64];
        char letter[8] = "    ";
        if (o->letter)
            snprintf(letter, sizeof letter, "-%c, ", o->letter);
        snprintf(left, sizeof left, "%s--%s%s%s", letter, o->name, o->value ? " " : "",
                 o->value ? o->value : "");
        printf("  %-26s %s\n", left, o->text);
    }
    printf("  %-26s %s\n", "-h, --help", "print this");
    /* "bench agree" is part of the page of "bench". */
    printf("\nThe manual page coppice-%.*s(1) says more.\n",
           (int)strcspn(args->name, " "), args->name);
}

static int usage(const struct args *args, const char *what, const char *about)
{
    return fail(EXIT_USAGE, "%s: %s%s (try: coppice help %s)", args->name, what, about,
                args->name);
}

static const struct args_option *find_long(const struct args *args, const char *text,
                                           size_t length)
{
    for (const struct args_option *o = args->options; o->name; o++)
        if (strlen(o->name) == length && memcmp(o->name, text, length) == 0)
            return o;
    return NULL;
}

static const struct args_option *find_short(const struct args *args, char letter)
{
    for (const struct args_option *o = args->options; o->name; o++)
        if (o->letter == letter)
            return o;
    return NULL;
}

/* Writes the value of an option to its target. */
static int set_number(const struct args *args, const struct args_option *option,
                      const char *value)
{
    int error = parse_number(value, option->least, option->most, option->target);
    if (error)
        return fail(EXIT_USAGE,
                    "%s: --%s takes a number from %" PRIu64 " to %" PRIu64 ", not '%s'",
                    args->name, option->name, option->least, option->most, value);
    return 0;
}

static int set_value(const struct args *args, const struct args_option *option,
                     const char *value)
{
    switch (option->kind) {
    case ARGS_FLAG:
        *(bool *)option->target = true;
        return 0;
    case ARGS_TEXT:
        *(const char **)option->target = value;
        return 0;
    case ARGS_NUMBER:
        return set_number(args, option, value);
    case ARGS_DURATION:
        if (parse_duration(value, option->target) == 0)
            return 0;
        return fail(EXIT_USAGE, "%s: --%s takes a time such as 500ms or 2s, not '%s'",
                    args->name, option->name, value);
    }
    return 0;
}

/* The option at argv[*i], with its value, which may be in the next argument. */
static int take_option(struct args *args, int argc, char **argv, int *i)
{
    const char *text = argv[*i];
    const struct args_option *option;
    const char *value = NULL;
    if (text[1] == '-') {
        size_t length = strcspn(text + 2, "=");
        option = find_long(args, text + 2, length);
        if (text[2 + length] == '=')
            value = text + 2 + length + 1;
    } else {
        option = find_short(args, text[1]);
        if (text[2] != '\0')
            value = text + 2;
    }
    if (option == NULL)
        return usage(args, "unknown option ", text);
    if (option->kind == ARGS_FLAG && value != NULL)
        return usage(args, "this option takes no value: ", text);
    if (option->kind != ARGS_FLAG && value == NULL) {
        if (*i + 1 >= argc)
            return usage(args, "a value is missing after ", text);
        value = argv[++*i];
    }
    args->typed |= option - args->options < 64 ? 1ull << (option - args->options) : 0;
    return set_value(args, option, value);
}

static bool is_help(const char *text)
{
    return strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0;
}

const char *args_first_but(const struct args *args, const char *names)
{
    char word[64];
    for (int i = 0; i < 64 && args->options[i].name; i++) {
        snprintf(word, sizeof word, " --%s ", args->options[i].name);
        if ((args->typed >> i & 1) && strstr(names, word) == NULL)
            return args->options[i].name;
    }
    return NULL;
}

static bool is_typed(const struct args *args, const char *name)
{
    for (int i = 0; i < 64 && args->options[i].name; i++)
        if (strcmp(args->options[i].name, name) == 0)
            return args->typed >> i & 1;
    return false;
}

const struct args_way *args_first_astray(const struct args *args,
                                         const struct args_way *table, const char *way)
{
    for (; table->name; table++)
        if (is_typed(args, table->name) && strstr(table->ways, way) == NULL)
            return table;
    return NULL;
}

bool args_parse(struct args *args, int argc, char **argv, int *code)
{
    args->operands = argv + 1;
    args->count = 0;
    args->typed = 0;
    *code = 0;
    if (complete_is_asked(argc, argv)) {
        complete_print(args, argv + 1, argc - 2);
        return false;
    }
    bool options = true;
    for (int i = 1; i < argc && *code == 0; i++) {
        if (options && strcmp(argv[i], "--") == 0) {
            options = false;
        } else if (options && is_help(argv[i])) {
            print_help(args);
            return false;
        } else if (options && argv[i][0] == '-' && argv[i][1] != '\0') {
            *code = take_option(args, argc, argv, &i);
        } else {
            args->operands[args->count++] = argv[i];
        }
    }
    if (*code == 0 && args->count < args->least)
        *code = usage(args, "an operand is missing: ", args->usage);
    if (*code == 0 && args->count > args->most)
        *code = usage(args, "unexpected operand ", args->operands[args->most]);
    return *code == 0;
}
