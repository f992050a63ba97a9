/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_SIM_SCRIPT_H
#define COP_SIM_SCRIPT_H

#include <coppice/sim.h>
#include <stdio.h>

/* One line of a script cut into words, and where to say what is wrong with it. */
#define COP__WORDS_MAX 64
struct cop__words {
    const char *items[COP__WORDS_MAX]; /* NULL behind the last */
    uint32_t count, at;
    char *message;
    size_t size;
};

/* The next word, or NULL; and whether it is `word`, in which case it is taken. */
const char *cop__word_next(struct cop__words *words);
bool cop__word_is(struct cop__words *words, const char *word);
/* Each false after saying what is wrong. */
bool cop__word_number(struct cop__words *words, const char *what, uint64_t limit,
                      uint64_t *out);
bool cop__word_id(struct cop__words *words, const char *what, cop_id *out);
bool cop__word_time(struct cop__words *words, const char *what, cop_time *out);
bool cop__words_end(struct cop__words *words);
/* Says it, and returns false. */
bool cop__words_wrong(struct cop__words *words, const char *format, ...);
/* "7", "10us", "5ms", "2s"; at most COP__TIME_MAX. */
bool cop__parse_time(const char *text, cop_time *out);
#define COP__TIME_MAX (UINT64_C(1000000) * COP_SEC)

/* Reads the words behind "net" into `script`, or those of an action line. */
bool cop__parse_net(struct cop__words *words, struct cop_sim_script *script);
bool cop__parse_action(struct cop__words *words, struct cop_sim_script *script);
/* "0-3,7": the ids of a set. */
bool cop__parse_set(struct cop__words *words, struct cop_sim_set *out);
void cop__print_set(const struct cop_sim_set *set, char *out, size_t size);
/* Lines about collectives (script_coll.c). */
bool cop__parse_group(struct cop__words *words, struct cop_sim_action *action);
bool cop__parse_endgroup(struct cop__words *words, struct cop_sim_action *action);
bool cop__parse_bcast(struct cop__words *words, struct cop_sim_action *action);
bool cop__parse_service(struct cop__words *words, struct cop_sim_action *action);
bool cop__parse_unservice(struct cop__words *words, struct cop_sim_action *action);
void cop__print_coll(const struct cop_sim_action *action, char *out, size_t size);
bool cop__parse_agree(struct cop__words *words, struct cop_sim_agree *agree);
void cop__print_agree(const struct cop_sim_agree *agree, FILE *out);
/* script_stream.c */
bool cop__parse_stream(struct cop__words *words, struct cop_sim_stream *stream);
void cop__print_stream(const struct cop_sim_stream *stream, FILE *out);
void cop__print_net(const struct cop_sim_net *net, char *out, size_t size);

#endif
