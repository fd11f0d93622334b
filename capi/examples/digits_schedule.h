/* Schedules as the command line gives them:
 *
 *     --schedule 'lr sequential milestones=50 (linear total_iters=50) (cosine T_max=1470)'
 *
 *     HYPER KIND [NAME=NUMBER...] [milestones=T,T...] [(PIECE)...] [clock=applied|called|manual]
 *
 * A PIECE is a KIND and what follows it, but for the clock. Kinds, names and ranges are the library's
 * affair; here is known only that a function of C cannot be typed.
 */
#ifndef TALUS_EXAMPLES_DIGITS_SCHEDULE_H
#define TALUS_EXAMPLES_DIGITS_SCHEDULE_H
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <talus.h>

#include "digits_failure.h"

enum { kMaxSchedules = 16, kMaxLevels = 8, kMaxMilestones = 64, kMaxWord = 64 };

/* One --schedule. */
typedef struct ScheduleOption {
  const char *text;
  char hyper[kMaxWord];
  talus_schedule *schedule; /* a reference, until it is attached */
  int32_t clock;
  int has_plateau; /* which waits for reports */
} ScheduleOption;

/* How far an option has been read. */
typedef struct ScheduleReader {
  const char *text, *at, *word; /* word: where the last one began */
  ScheduleOption *option;
} ScheduleReader;

static void refuse_text(const ScheduleReader *reader, const char *expected) {
  fprintf(stderr, TALUS_DIGITS_PROGRAM ": --schedule '%s', column %d: expected %s, got '%.20s'\n",
          reader->text, (int)(reader->at - reader->text) + 1, expected, reader->at);
  exit(2);
}

/* What the library says of the last word. */
static void check_schedule(const ScheduleReader *reader, talus_status status) {
  if (status == TALUS_OK) return;
  fprintf(stderr, TALUS_DIGITS_PROGRAM ": --schedule '%s', column %d: %s: %s\n", reader->text,
          (int)(reader->word - reader->text) + 1, talus_status_name(status), talus_last_error());
  exit(1);
}

static int is_end(char c) { return c == '\0' || c == '(' || c == ')' || isspace((unsigned char)c); }

static void skip_spaces(ScheduleReader *reader) {
  while (isspace((unsigned char)*reader->at)) ++reader->at;
}

static void read_word(ScheduleReader *reader, char word[kMaxWord], const char *expected) {
  size_t length = 0;
  skip_spaces(reader);
  reader->word = reader->at;
  while (isalnum((unsigned char)reader->at[length]) || reader->at[length] == '_') ++length;
  if (length == 0 || length >= kMaxWord) refuse_text(reader, expected);
  memcpy(word, reader->at, length);
  word[length] = '\0';
  reader->at += length;
}

static double read_number(ScheduleReader *reader) {
  char *end;
  errno = 0;
  double value = strtod(reader->at, &end);
  int is_too_large = errno == ERANGE && fabs(value) > 1; /* a denormal one is a number */
  if (isspace((unsigned char)*reader->at) || end == reader->at || !is_end(*end) || is_too_large)
    refuse_text(reader, "a number");
  reader->at = end;
  return value;
}

static int64_t read_milestone(ScheduleReader *reader) {
  char *end;
  errno = 0;
  long long value = strtoll(reader->at, &end, 10);
  int is_whole = end != reader->at && (*end == ',' || is_end(*end));
  if (isspace((unsigned char)*reader->at) || errno != 0 || !is_whole)
    refuse_text(reader, "integers with commas between them");
  reader->at = end;
  return value;
}

static void read_milestones(ScheduleReader *reader, talus_schedule *schedule) {
  int64_t milestones[kMaxMilestones], count = 0;
  int is_done = is_end(*reader->at); /* an empty list */
  while (!is_done) {
    if (count == kMaxMilestones) refuse_text(reader, "no more than 64 milestones");
    milestones[count++] = read_milestone(reader);
    is_done = *reader->at != ',';
    if (!is_done) ++reader->at;
  }
  check_schedule(reader, talus_schedule_set_list(schedule, "milestones", milestones, count));
}

static int32_t read_clock(ScheduleReader *reader) {
  static const char *const kNames[] = {"applied", "called", "manual"}; /* TALUS_CLOCK_... */
  const char *before = reader->at;
  char name[kMaxWord];
  read_word(reader, name, "applied, called or manual");
  for (int32_t i = 0; i < 3; ++i)
    if (strcmp(kNames[i], name) == 0) return i;
  reader->at = before;
  refuse_text(reader, "applied, called or manual");
  return 0;
}

static void read_setting(ScheduleReader *reader, talus_schedule *schedule, int is_piece) {
  char name[kMaxWord];
  read_word(reader, name, "NAME=NUMBER or a piece in parentheses");
  if (*reader->at != '=') refuse_text(reader, "= and a value");
  ++reader->at;
  if (strcmp(name, "milestones") == 0) {
    read_milestones(reader, schedule);
  } else if (strcmp(name, "clock") == 0) {
    if (is_piece) refuse_text(reader, "the clock outside of pieces, which share it");
    reader->option->clock = read_clock(reader);
  } else {
    double value = read_number(reader);
    check_schedule(reader, talus_schedule_set(schedule, name, value));
  }
}

static talus_schedule *create_kind(ScheduleReader *reader) {
  char kind[kMaxWord];
  talus_schedule *schedule;
  read_word(reader, kind, "a kind of schedule");
  if (strcmp(kind, "lambda") == 0 || strcmp(kind, "multiplicative") == 0) {
    reader->at = reader->word;
    refuse_text(reader, "a kind that needs no function of C");
  }
  check_schedule(reader, talus_schedule_create(kind, &schedule));
  reader->option->has_plateau |= strcmp(kind, "plateau") == 0;
  return schedule;
}

/* Up to the end of the text or of the piece; the caller's to destroy. */
static talus_schedule *read_schedule(ScheduleReader *reader, int level) {
  if (level > kMaxLevels) refuse_text(reader, "no more than 8 levels of pieces");
  talus_schedule *schedule = create_kind(reader);
  for (skip_spaces(reader); *reader->at != '\0' && *reader->at != ')'; skip_spaces(reader)) {
    if (*reader->at != '(') {
      read_setting(reader, schedule, level > 0);
      continue;
    }
    const char *opening = reader->at++;
    talus_schedule *piece = read_schedule(reader, level + 1);
    if (*reader->at != ')') refuse_text(reader, "a closing parenthesis");
    ++reader->at;
    reader->word = opening;
    check_schedule(reader, talus_schedule_add(schedule, piece));
    talus_schedule_destroy(piece);
  }
  return schedule;
}

static ScheduleOption parse_schedule(const char *text) {
  ScheduleOption option = {text, "", NULL, TALUS_CLOCK_APPLIED, 0};
  ScheduleReader reader = {text, text, text, &option};
  read_word(&reader, option.hyper, "a hyperparameter");
  option.schedule = read_schedule(&reader, 0);
  if (*reader.at != '\0') refuse_text(&reader, "the end");
  return option;
}

static int has_schedule(const talus_optimizer *opt, const char *hyper) {
  talus_schedule *schedule;
  CHECK(talus_get_schedule(opt, 0, hyper, &schedule, NULL));
  int has_one = schedule != NULL;
  talus_schedule_destroy(schedule);
  return has_one;
}

/* Puts it on all groups; a checkpoint that has been loaded may have brought it. Frees the reference. */
static void attach_schedule(talus_optimizer *opt, ScheduleOption *option, int is_resumed) {
  ScheduleReader reader = {option->text, option->text, option->text, option};
  if (!is_resumed || !has_schedule(opt, option->hyper))
    check_schedule(&reader, talus_attach_schedule(opt, TALUS_ALL, option->hyper, option->schedule,
                                                  option->clock));
  talus_schedule_destroy(option->schedule);
  option->schedule = NULL;
}

#endif
