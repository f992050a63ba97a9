/* SPDX-License-Identifier: Apache-2.0 */
#include <coppice/error.h>

const char *cop_strerror(int error)
{
    switch (error) {
    case COP_OK:
        return "success";
#define SENTENCE(name, value, text, advice)                                            \
    case COP_##name:                                                                   \
        return text;
        COP_ERRORS(SENTENCE)
#undef SENTENCE
    default:
        return "unknown error";
    }
}

const char *cop_error_name(int error)
{
    switch (error) {
    case COP_OK:
        return "COP_OK";
#define NAME(name, value, text, advice)                                                \
    case COP_##name:                                                                   \
        return "COP_" #name;
        COP_ERRORS(NAME)
#undef NAME
    default:
        return "unknown";
    }
}

const char *cop_error_advice(int error)
{
    switch (error) {
#define ADVICE(name, value, text, advice)                                              \
    case COP_##name:                                                                   \
        return advice;
        COP_ERRORS(ADVICE)
#undef ADVICE
    default:
        return "";
    }
}
