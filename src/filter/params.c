/* SPDX-License-Identifier: Apache-2.0 */
#include "filter/state.h"

#include <string.h>

int cop__param_next(const char *params, uint32_t *at, struct cop__param *out)
{
    const char *from = params + *at;
    if (*from == '\0')
        return COP_ENOENT;
    size_t name = strcspn(from, "=,"), value;
    if (name == 0 || from[name] != '=')
        return COP_EINVAL;
    value = strcspn(from + name + 1, ",");
    if (value == 0 || name + value >= COP_FILTER_PARAMS_MAX)
        return COP_EINVAL;
    size_t end = name + 1 + value;
    if (from[end] == ',' && from[++end] == '\0')
        return COP_EINVAL;
    out->name = (struct cop_span){(const uint8_t *)from, (uint32_t)name};
    out->value = (struct cop_span){(const uint8_t *)from + name + 1, (uint32_t)value};
    *at += (uint32_t)end;
    return 0;
}

bool cop__param_is(const struct cop__param *param, const char *name)
{
    return strlen(name) == param->name.length &&
           memcmp(name, param->name.bytes, param->name.length) == 0;
}

int cop__param_u64(struct cop_span text, uint64_t *out)
{
    uint64_t value = 0;
    if (text.length == 0)
        return COP_EINVAL;
    for (uint32_t i = 0; i < text.length; i++) {
        uint64_t digit = (uint64_t)text.bytes[i] - '0';
        if (digit > 9 || value > (UINT64_MAX - digit) / 10)
            return COP_EINVAL;
        value = value * 10 + digit;
    }
    *out = value;
    return 0;
}

int cop__param_i64(struct cop_span text, uint64_t *out)
{
    bool negative = text.length > 0 && text.bytes[0] == '-';
    uint64_t value;
    if (negative)
        text = (struct cop_span){text.bytes + 1, text.length - 1};
    if (cop__param_u64(text, &value) ||
        value > (UINT64_C(1) << 63) - (negative ? 0 : 1))
        return COP_EINVAL;
    *out = negative ? 0 - value : value;
    return 0;
}

bool cop__read_number(struct cop_span *text, uint32_t *out)
{
    struct cop_span digits = {text->bytes, 0};
    uint64_t value;
    while (digits.length < text->length && text->bytes[digits.length] >= '0' &&
           text->bytes[digits.length] <= '9')
        digits.length++;
    if (cop__param_u64(digits, &value) || value > UINT32_MAX ||
        (digits.length > 1 && digits.bytes[0] == '0'))
        return false;
    text->bytes += digits.length;
    text->length -= digits.length;
    *out = (uint32_t)value;
    return true;
}

bool cop__read_byte(struct cop_span *text, char byte)
{
    if (text->length == 0 || text->bytes[0] != (uint8_t)byte)
        return false;
    text->bytes++;
    text->length--;
    return true;
}

int cop__param_one(const char *params, const char *name, uint64_t low, uint64_t high,
                   uint64_t *value)
{
    struct cop__param param;
    uint32_t at = 0;
    int error;
    while ((error = cop__param_next(params, &at, &param)) == 0)
        if (!cop__param_is(&param, name) || cop__param_u64(param.value, value))
            return COP_EINVAL;
    if (error != COP_ENOENT)
        return error;
    return *value >= low && *value <= high ? 0 : COP_EINVAL;
}

/* ---- writing text ---------------------------------------------------------------- */

int cop__put_text(struct cop_filter_out *out, const char *text)
{
    return cop_filter_put(out, text, (uint32_t)strlen(text));
}

int cop__put_decimal(struct cop_filter_out *out, uint64_t value)
{
    char digits[20];
    uint32_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + value % 10);
    while (value /= 10);
    return cop_filter_put(out, digits + at, (uint32_t)sizeof digits - at);
}

int cop__put_signed(struct cop_filter_out *out, uint64_t value)
{
    if (!(value >> 63))
        return cop__put_decimal(out, value);
    cop__put_text(out, "-");
    return cop__put_decimal(out, 0 - value);
}

int cop__put_escaped(struct cop_filter_out *out, struct cop_span span)
{
    static const char hex[] = "0123456789abcdef";
    for (uint32_t i = 0; i < span.length; i++) {
        uint8_t byte = span.bytes[i];
        if (byte >= ' ' && byte < 0x7f && byte != '\\') {
            cop_filter_put(out, &byte, 1);
            continue;
        }
        char text[4] = {'\\', 'x', hex[byte >> 4], hex[byte & 15]};
        cop_filter_put(out, text, 4);
    }
    return out->error;
}
