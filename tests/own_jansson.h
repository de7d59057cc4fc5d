/* jansson, whose names of kinds of values [json] has too. */
#define JSON_OBJECT JANSSON_OBJECT
#define JSON_ARRAY  JANSSON_ARRAY
#define JSON_STRING JANSSON_STRING
#include <jansson.h>
#undef JSON_OBJECT
#undef JSON_ARRAY
#undef JSON_STRING
