/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_TERM_SCREEN_H
#define COP_TOOLS_TERM_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

/*
 * A terminal as one screen, by ncurses, which is loaded when it is used: agents are the same
 * program, and need not carry it.
 */

/* False: there is none here, `why` says so in a sentence. */
bool screen_open(char *why, size_t size);
void screen_close(void);
/* Shows these lines, and nothing else; what does not fit is cut off. Lines that begin with '*'
 * are bold, with '!' red; the first character is not shown. */
void screen_show(const char *text);
/* Can be read when a key was pressed, or a signal came that is to end this. */
int screen_fd(void);
/* The next key; -1: none. */
int screen_key(void);
/* SIGINT or SIGTERM, if that came; 0 otherwise. While there is a screen they do nothing else: it
 * has to be closed first. */
int screen_signal(void);

#endif
