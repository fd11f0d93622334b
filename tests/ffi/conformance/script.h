/* The lines of a conformance script, for conformance.c: read, split into words, and rewritten with
 * what was answered. No talus here. */
#ifndef TALUS_TESTS_FFI_CONFORMANCE_SCRIPT_H
#define TALUS_TESTS_FFI_CONFORMANCE_SCRIPT_H
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kLineBytes = 4096, kMostWords = 64 };

typedef struct Script {
  const char *path;
  FILE *file, *rewritten; /* rewritten NULL: answers are compared */
  int number, calls;      /* of the line; made so far */
  char line[kLineBytes];  /* as it is in the file, without its end */
  char cut[kLineBytes];   /* words of it, each with a NUL behind */
  const char *words[kMostWords];
  const char *expected;    /* in line; NULL: the call answers nothing */
  char answer[kLineBytes]; /* of the present call, words with a space before each */
  size_t answer_bytes;
} Script;

/* Ends the program: what happened at the present line. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3), noreturn))
#endif
static void
stop_at(const Script *script, const char *format, ...) {
  va_list values;
  va_start(values, format);
  fprintf(stderr, "%s:%d: ", script->path, script->number);
  vfprintf(stderr, format, values);
  fprintf(stderr, "\n");
  va_end(values);
  exit(1);
}

/* Appends a word to the answer. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static void
answer(Script *script, const char *format, ...) {
  size_t left = sizeof script->answer - script->answer_bytes;
  char *to = script->answer + script->answer_bytes;
  va_list values;
  int length;
  *to = ' ';
  va_start(values, format);
  length = vsnprintf(to + 1, left - 1, format, values);
  va_end(values);
  if (length < 0 || (size_t)length + 2 > left) stop_at(script, "an answer of too many words");
  script->answer_bytes += (size_t)length + 1;
}

static void split(Script *script, size_t length) {
  int count = 0;
  memcpy(script->cut, script->line, length);
  script->cut[length] = 0;
  for (char *word = strtok(script->cut, " "); word; word = strtok(NULL, " ")) {
    if (count == kMostWords - 1) stop_at(script, "more than %d words", kMostWords - 1);
    script->words[count++] = word;
  }
  script->words[count] = NULL;
}

/* Reads on to the next line that is a call; 0 at the end. Others are rewritten as they are. */
static int next_call(Script *script) {
  while (fgets(script->line, sizeof script->line, script->file)) {
    char *end = strchr(script->line, '\n');
    ++script->number;
    if (end == NULL) stop_at(script, "a line without an end, or longer than %d", kLineBytes - 2);
    *end = 0;
    if (*script->line == 0 || *script->line == '#') {
      if (script->rewritten) fprintf(script->rewritten, "%s\n", script->line);
      continue;
    }
    script->expected = strstr(script->line, " =");
    split(script,
          script->expected ? (size_t)(script->expected - script->line) : strlen(script->line));
    script->answer[0] = 0;
    script->answer_bytes = 0;
    return 1;
  }
  return 0;
}

/* Compares the answer with the line, or writes the line anew with it. */
static void settle(Script *script) {
  const char *expected = script->expected ? script->expected + 2 : "";
  ++script->calls;
  if ((script->expected != NULL) != (script->answer_bytes != 0))
    stop_at(script, "got%s, expected%s", script->answer_bytes ? script->answer : " no answer",
            *expected ? expected : " none");
  if (script->rewritten) {
    fprintf(script->rewritten, "%.*s",
            (int)(script->expected ? script->expected - script->line : kLineBytes), script->line);
    fprintf(script->rewritten, "%s%s\n", script->expected ? " =" : "", script->answer);
  } else if (strcmp(script->answer, expected) != 0) {
    stop_at(script, "got%s, expected%s", script->answer, expected);
  }
}

static int64_t to_int(const Script *script, const char *word) {
  char *end;
  long long value = strtoll(word, &end, 10);
  if (*word == 0 || *end != 0) stop_at(script, "\"%s\" is no integer", word);
  return value;
}

/* digits hex digits. */
static uint64_t to_bits(const Script *script, const char *word, size_t digits) {
  char *end;
  uint64_t value = strtoull(word, &end, 16);
  if (strlen(word) != digits || *end != 0)
    stop_at(script, "\"%s\" is not %u hex digits", word, (unsigned)digits);
  return value;
}

static double to_double(const Script *script, const char *word) {
  uint64_t bits = to_bits(script, word, 16);
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static void answer_double(Script *script, double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  answer(script, "%016llx", (unsigned long long)bits);
}
#endif
