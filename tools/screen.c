/* SPDX-License-Identifier: Apache-2.0 */
#include "screen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef COPPICE_HAVE_NCURSES

bool screen_open(char *why, size_t size)
{
    snprintf(why, size, "this coppice was built without ncurses (libncurses-dev)");
    return false;
}

void screen_close(void) {}
void screen_show(const char *text) { (void)text; }
int screen_key(void) { return -1; }

#else

#define NCURSES_NOMACROS 1
#include <curses.h>
#include <dlfcn.h>
#include <locale.h>
#include <term.h>
#include <unistd.h>

#define FUNCTIONS(X)                                                                   \
    X(setupterm)                                                                       \
    X(initscr)                                                                         \
    X(endwin)                                                                          \
    X(cbreak)                                                                          \
    X(noecho)                                                                          \
    X(nodelay)                                                                         \
    X(curs_set)                                                                        \
    X(has_colors)                                                                      \
    X(start_color)                                                                     \
    X(use_default_colors)                                                              \
    X(COLOR_PAIR)                                                                      \
    X(init_pair)                                                                       \
    X(werase)                                                                          \
    X(wmove)                                                                           \
    X(wclrtoeol)                                                                       \
    X(waddnstr)                                                                        \
    X(wattr_on)                                                                        \
    X(wattr_off)                                                                       \
    X(wrefresh)                                                                        \
    X(wgetch)                                                                          \
    X(getmaxy)

static struct {
#define MEMBER(name) __typeof__(name) *name;
    FUNCTIONS(MEMBER)
#undef MEMBER
} nc;
static WINDOW *window;
static bool has_red;

static bool find(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool load(char *why, size_t size)
{
    void *library = dlopen("libncursesw.so.6", RTLD_NOW | RTLD_LOCAL);
    bool good = library != NULL;
#define FIND(name) good = good && find(library, #name, &nc.name);
    FUNCTIONS(FIND)
#undef FIND
    if (!good)
        snprintf(why, size,
                 "ncurses' libncursesw.so.6 cannot be used (apt-get install "
                 "libncursesw6): %s",
                 dlerror());
    return good;
}

/* initscr would end the process where it does not know the terminal. */
static bool knows_terminal(char *why, size_t size)
{
    int error = 0;
    const char *term = getenv("TERM");
    if (term && nc.setupterm(term, STDOUT_FILENO, &error) == OK)
        return true;
    snprintf(why, size, "ncurses does not know the terminal '%s'", term ? term : "");
    return false;
}

bool screen_open(char *why, size_t size)
{
    if (!load(why, size) || !knows_terminal(why, size))
        return false;
    setlocale(LC_CTYPE, "");
    window = nc.initscr();
    nc.cbreak();
    nc.noecho();
    nc.nodelay(window, true);
    nc.curs_set(0);
    has_red = nc.has_colors() && nc.start_color() == OK &&
              nc.use_default_colors() == OK && nc.init_pair(1, COLOR_RED, -1) == OK;
    return true;
}

void screen_close(void)
{
    if (window != NULL)
        nc.endwin();
    window = NULL;
}

static attr_t look_of(char mark)
{
    if (mark == '!')
        return has_red ? (attr_t)nc.COLOR_PAIR(1) | A_BOLD : A_BOLD;
    return mark == '*' ? A_BOLD : A_NORMAL;
}

void screen_show(const char *text)
{
    int rows = nc.getmaxy(window);
    nc.werase(window);
    for (int row = 0; *text && row < rows; row++) {
        size_t length = strcspn(text, "\n");
        attr_t look = look_of(text[0]);
        nc.wmove(window, row, 0);
        nc.wclrtoeol(window);
        nc.wattr_on(window, look, NULL);
        /* In bytes; what is wider than the screen goes on in the next row, which is written
         * after it. */
        if (length > 1)
            nc.waddnstr(window, text + 1, (int)length - 1);
        nc.wattr_off(window, look, NULL);
        text += length + (text[length] ? 1 : 0);
    }
    nc.wrefresh(window);
}

int screen_key(void)
{
    int key = nc.wgetch(window);
    return key == ERR ? -1 : key;
}

#endif
