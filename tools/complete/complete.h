/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_COMPLETE_COMPLETE_H
#define COP_TOOLS_COMPLETE_COMPLETE_H

#include "term/args.h"

/*
 * What may stand in place of the last word of a command line, one a line: from the same table
 * that parses it. A command is asked by a last argument that nobody can type, so that words
 * are understood by whoever would understand them otherwise.
 */
#define COMPLETE_MARK "\001complete"
/* Stands for the names of files, which shells know better. */
#define COMPLETE_FILES ":files"

bool complete_is_asked(int argc, char **argv);
/* `words` are those after the command's name, the last of them unfinished; maybe "". */
void complete_print(const struct args *args, char *const *words, int count);
/* One candidate, if it begins with `start`. */
void complete_offer(const char *candidate, size_t length, const char *start);

#endif
