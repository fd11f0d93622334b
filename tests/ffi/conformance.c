/* Runs a conformance script over talus.h and compares every answer to the bit; what the calls are
 * stands at the top of conformance.txt.
 *
 *     conformance [--write] [FILE]
 *
 * FILE defaults to the variable TALUS_CONFORMANCE, then to the one beside this source. --write puts
 * this library's answers into the file in place of those that are there.
 */
#define _POSIX_C_SOURCE 200809L /* mkdtemp, truncate, rmdir */
#include "conformance/file_calls.h"
#include "conformance/optimizer_calls.h"
#include "conformance/param_calls.h"
#include "conformance/precision_calls.h"
#include "conformance/schedule_calls.h"

static const struct {
  const char *name;
  int words; /* behind it, at least */
  talus_status (*call)(Run *run, Words w);
} kCalls[] = {{"optimizer", 2, optimizer},
              {"group", 2, group},
              {"set", 4, set},
              {"get", 3, get},
              {"setting", 3, setting},
              {"get_setting", 2, get_setting},
              {"count", 1, count},
              {"array", 2, make_array},
              {"fill", 1, fill},
              {"read", 1, read_array},
              {"same", 2, same},
              {"param", 8, add_param},
              {"bind", 3, bind},
              {"rows", 3, bind_rows},
              {"set_group", 3, set_group},
              {"remove", 2, remove_param},
              {"find", 2, find},
              {"zero_grad", 1, zero_grad},
              {"slot", 3, slot},
              {"steps", 2, steps},
              {"set_steps", 3, set_steps},
              {"step", 1, step},
              {"advance", 1, advance},
              {"step_closure", 2, step_closure},
              {"stat", 2, stat},
              {"schedule", 2, schedule},
              {"schedule_set", 3, schedule_set},
              {"schedule_list", 2, schedule_list},
              {"schedule_add", 2, schedule_add},
              {"schedule_function", 2, schedule_function},
              {"schedule_value", 3, schedule_value},
              {"attach", 4, attach},
              {"value_now", 3, value_now},
              {"observe", 2, observe},
              {"scaler", 1, scaler},
              {"scaler_set", 3, scaler_set},
              {"scale", 1, scale},
              {"attach_scaler", 2, attach_scaler},
              {"update", 1, update},
              {"norm", 3, norm},
              {"clip", 4, clip},
              {"export", 3, export_param},
              {"bytes", 6, bytes},
              {"save", 2, save},
              {"load", 2, load},
              {"truncate", 2, truncate_file},
              {"same_file", 2, same_file},
              {"destroy", 1, destroy}};

static talus_status make_call(Run *run, Words words) {
  int count_of_words = 0;
  while (words[count_of_words]) ++count_of_words;
  for (size_t i = 0; i < sizeof kCalls / sizeof *kCalls; ++i) {
    if (strcmp(kCalls[i].name, words[0]) != 0) continue;
    if (count_of_words <= kCalls[i].words)
      stop_at(&run->script, "%s takes %d words", words[0], kCalls[i].words);
    return kCalls[i].call(run, words + 1);
  }
  stop_at(&run->script, "unknown call %s", words[0]);
}

/* ! STATUS WORD CALL */
static void must_fail(Run *run, Words words) {
  if (words[0] == NULL || words[1] == NULL || words[2] == NULL)
    stop_at(&run->script, "expected status, word and call");
  const char *got = talus_status_name(make_call(run, words + 2));
  if (strcmp(got, words[0]) != 0)
    stop_at(&run->script, "got %s, expected %s (%s)", got, words[0], talus_last_error());
  if (strstr(talus_last_error(), words[1]) == NULL)
    stop_at(&run->script, "got \"%s\", expected \"%s\" in it", talus_last_error(), words[1]);
}

static void run_line(Run *run) {
  Words words = run->script.words;
  if (strcmp(words[0], "!") == 0) {
    must_fail(run, words + 1);
  } else {
    talus_status status = make_call(run, words);
    if (status != TALUS_OK)
      stop_at(&run->script, "got %s: %s", talus_status_name(status), talus_last_error());
  }
  settle(&run->script);
}

/* What the library has gained, the script must have too. */
static void require_all(Run *run, const char *list) {
  for (int32_t i = 0; i < talus_name_count(list); ++i) {
    char word[64];
    snprintf(word, sizeof word, " %s ", talus_name_at(list, i));
    if (strstr(run->made, word) == NULL)
      stop_at(&run->script, "nothing is made with%sof %s", word, list);
  }
}

static void open_script(Script *script, const char *path, int writing) {
  script->path = path;
  script->file = fopen(path, "r");
  script->rewritten = writing ? tmpfile() : NULL;
  if (script->file == NULL || (writing && script->rewritten == NULL)) {
    perror(path);
    exit(1);
  }
}

static void write_back(Script *script) {
  char block[4096];
  size_t length;
  FILE *file = fopen(script->path, "w");
  if (file == NULL) stop_at(script, "cannot be written");
  rewind(script->rewritten);
  while ((length = fread(block, 1, sizeof block, script->rewritten)) > 0)
    fwrite(block, 1, length, file);
  fclose(script->rewritten);
  if (ferror(file) | fclose(file)) stop_at(script, "cannot be written");
}

static Run the_run;

static void clean_up(void) { remove_folder(&the_run.folder); }

int main(int argc, char **argv) {
  int writing = argc > 1 && strcmp(argv[1], "--write") == 0;
  const char *path = getenv("TALUS_CONFORMANCE");
  if (path == NULL) path = TALUS_CONFORMANCE_FILE;
  open_script(&the_run.script, argc > 1 + writing ? argv[1 + writing] : path, writing);
  make_folder(&the_run.folder);
  atexit(clean_up);
  while (next_call(&the_run.script)) run_line(&the_run);
  require_all(&the_run, "algorithms");
  require_all(&the_run, "aliases");
  require_all(&the_run, "schedules");
  destroy_objects(&the_run.objects);
  if (writing) write_back(&the_run.script);
  fclose(the_run.script.file);
  printf("%d calls agree\n", the_run.script.calls);
  return 0;
}
