/* Runs a conformance script over talus.h and compares every answer to the bit; what the calls are
 * stands at the top of conformance.txt.
 *
 *     conformance [--write] [FILE]
 *
 * FILE defaults to the variable TALUS_CONFORMANCE, then to the one beside this source. --write puts
 * this library's answers into the file in place of those that are there.
 */
#define _POSIX_C_SOURCE 200809L /* mkdtemp, truncate, rmdir */
#include <talus.h>

#include "objects.h"
#include "scratch_folder.h"
#include "script.h"

typedef struct Run {
  Script script;
  Objects objects;
  ScratchFolder folder;
  char made[2048]; /* rules and kinds of schedules, with spaces around each */
} Run;

typedef const char *const *Words; /* of a call, behind its name */

static talus_optimizer *opt_of(Run *run, const char *name) {
  return find_object(&run->script, &run->objects, name, kOptimizer)->memory;
}

static Object *array_of(Run *run, const char *name) {
  return find_object(&run->script, &run->objects, name, kArray);
}

static talus_schedule *schedule_of(Run *run, const char *name) {
  if (strcmp(name, "-") == 0) return NULL;
  return find_object(&run->script, &run->objects, name, kSchedule)->memory;
}

static talus_scaler *scaler_of(Run *run, const char *name) {
  if (strcmp(name, "-") == 0) return NULL;
  return find_object(&run->script, &run->objects, name, kScaler)->memory;
}

static int64_t int_of(Run *run, const char *word) { return to_int(&run->script, word); }
static int32_t index_of(Run *run, const char *word) { return (int32_t)int_of(run, word); }
static double double_of(Run *run, const char *word) { return to_double(&run->script, word); }

static void answer_elements(Run *run, const void *data, int32_t dtype, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    answer(&run->script, "%0*llx", (int)digits_of(dtype), element_bits(data, dtype, i));
}

static talus_status answer_value(Run *run, talus_status status, double value) {
  if (status == TALUS_OK) answer_double(&run->script, value);
  return status;
}

static talus_status answer_int(Run *run, talus_status status, int64_t value) {
  if (status == TALUS_OK) answer(&run->script, "%lld", (long long)value);
  return status;
}

/* Notes that the script has made one of this rule or kind. */
static void note_made(Run *run, const char *name) {
  size_t length = strlen(run->made);
  if (length + strlen(name) + 3 > sizeof run->made) stop_at(&run->script, "too many names");
  sprintf(run->made + length, " %s ", name);
}

/* ---- optimizers, groups, hyperparameters ---- */

static talus_status optimizer(Run *run, Words w) {
  talus_optimizer *opt;
  talus_status status = talus_create(w[1], TALUS_CPU, 0, &opt);
  if (status != TALUS_OK) return status;
  add_object(&run->script, &run->objects, w[0], kOptimizer, opt);
  note_made(run, w[1]);
  return TALUS_OK;
}

static talus_status group(Run *run, Words w) {
  int32_t index;
  return talus_add_group(opt_of(run, w[0]), w[1], &index);
}

static talus_status set(Run *run, Words w) {
  return talus_set(opt_of(run, w[0]), index_of(run, w[1]), w[2], double_of(run, w[3]));
}

static talus_status get(Run *run, Words w) {
  double value = 0;
  talus_status status = talus_get(opt_of(run, w[0]), index_of(run, w[1]), w[2], &value);
  return answer_value(run, status, value);
}

static talus_status setting(Run *run, Words w) {
  return talus_set_setting(opt_of(run, w[0]), w[1], double_of(run, w[2]));
}

static talus_status get_setting(Run *run, Words w) {
  double value = 0;
  talus_status status = talus_get_setting(opt_of(run, w[0]), w[1], &value);
  return answer_value(run, status, value);
}

static talus_status count(Run *run, Words w) {
  return answer_int(run, TALUS_OK, talus_name_count(w[0]));
}

/* ---- arrays ---- */

static talus_status fill(Run *run, Words w) {
  Object *array = array_of(run, w[0]);
  int64_t i = 0;
  for (; w[1 + i]; ++i) {
    if (i == array->count) stop_at(&run->script, "more than %lld elements", (long long)i);
    set_element(array->memory, array->dtype, i,
                to_bits(&run->script, w[1 + i], digits_of(array->dtype)));
  }
  if (i != array->count) stop_at(&run->script, "got %lld elements", (long long)i);
  return TALUS_OK;
}

static talus_status make_array(Run *run, Words w) {
  int32_t dtype = dtype_of(&run->script, w[1]);
  int64_t length = 0;
  Words elements = w + 2;
  while (elements[length]) ++length;
  Object *array = add_object(&run->script, &run->objects, w[0], kArray,
                             calloc((size_t)length + 1, digits_of(dtype) / 2));
  array->dtype = dtype;
  array->count = length;
  for (int64_t i = 0; i < length; ++i)
    set_element(array->memory, dtype, i, to_bits(&run->script, elements[i], digits_of(dtype)));
  return TALUS_OK;
}

static talus_status read_array(Run *run, Words w) {
  const Object *array = array_of(run, w[0]);
  answer_elements(run, array->memory, array->dtype, array->count);
  return TALUS_OK;
}

static talus_status same(Run *run, Words w) {
  const Object *a = array_of(run, w[0]), *b = array_of(run, w[1]);
  size_t bytes = (size_t)a->count * digits_of(a->dtype) / 2;
  if (a->dtype != b->dtype || a->count != b->count || memcmp(a->memory, b->memory, bytes) != 0)
    stop_at(&run->script, "%s and %s differ", w[0], w[1]);
  return TALUS_OK;
}

/* ---- parameters, gradients, state ---- */

static talus_param describe(Run *run, const char *state, const char *master) {
  talus_param param;
  memset(&param, 0, sizeof param);
  param.struct_size = sizeof param;
  param.state_dtype = dtype_or_none(&run->script, state);
  if (strcmp(master, "none") == 0)
    param.master = TALUS_MASTER_NONE;
  else if (dtype_or_none(&run->script, master) == TALUS_F32)
    param.master = TALUS_MASTER_F32;
  return param;
}

static talus_status add_param(Run *run, Words w) {
  const Object *data = array_of(run, w[3]);
  const Object *grad = strcmp(w[4], "-") == 0 ? NULL : array_of(run, w[4]);
  int64_t shape[8] = {data->count};
  talus_param param = describe(run, w[6], w[7]);
  param.ndim = strcmp(w[5], "-") == 0 ? 1 : parse_shape(&run->script, w[5], shape, 8);
  param.shape = shape;
  param.dtype = data->dtype;
  param.data = data->memory;
  param.name = w[2];
  if (grad) {
    param.grad = grad->memory;
    param.grad_dtype = grad->dtype;
  }
  return talus_add_params(opt_of(run, w[0]), index_of(run, w[1]), 1, &param, NULL);
}

static talus_status bind(Run *run, Words w) {
  void *grad = strcmp(w[2], "-") == 0 ? NULL : array_of(run, w[2])->memory;
  return talus_bind_grads(opt_of(run, w[0]), int_of(run, w[1]), 1, &grad);
}

static talus_status bind_rows(Run *run, Words w) {
  Object *values = array_of(run, w[2]);
  talus_rows rows;
  memset(&rows, 0, sizeof rows);
  rows.struct_size = sizeof rows;
  rows.index_dtype = TALUS_I64;
  while (w[3 + rows.count]) ++rows.count;
  free(values->rows); /* those of the last step */
  values->rows = calloc((size_t)rows.count + 1, sizeof *values->rows);
  for (int64_t i = 0; i < rows.count; ++i) values->rows[i] = int_of(run, w[3 + i]);
  rows.indices = values->rows;
  rows.values = values->memory;
  return talus_bind_rows(opt_of(run, w[0]), int_of(run, w[1]), &rows);
}

static talus_status set_group(Run *run, Words w) {
  int64_t param = int_of(run, w[2]);
  return talus_move_params(opt_of(run, w[0]), index_of(run, w[1]), 1, &param);
}

static talus_status remove_param(Run *run, Words w) {
  int64_t param = int_of(run, w[1]);
  return talus_remove_params(opt_of(run, w[0]), 1, &param);
}

static talus_status find(Run *run, Words w) {
  return answer_int(run, TALUS_OK, talus_find_param(opt_of(run, w[0]), w[1]));
}

static talus_status zero_grad(Run *run, Words w) {
  return talus_zero_grad(opt_of(run, w[0]), TALUS_ZERO_FILL, NULL);
}

static talus_status slot(Run *run, Words w) {
  const talus_optimizer *opt = opt_of(run, w[0]);
  for (int64_t i = 0; i < talus_state_count(opt); ++i) {
    talus_state state;
    memset(&state, 0, sizeof state);
    state.struct_size = sizeof state;
    talus_status status = talus_state_info(opt, i, &state);
    if (status != TALUS_OK) return status;
    if (state.param != int_of(run, w[1]) || strcmp(state.slot, w[2]) != 0) continue;
    answer_elements(run, state.data, state.dtype, state.count);
    return TALUS_OK;
  }
  stop_at(&run->script, "parameter %s has no slot %s", w[1], w[2]);
}

static talus_status steps(Run *run, Words w) {
  int64_t taken = 0;
  talus_status status = talus_steps(opt_of(run, w[0]), int_of(run, w[1]), &taken);
  return answer_int(run, status, taken);
}

static talus_status set_steps(Run *run, Words w) {
  return talus_set_steps(opt_of(run, w[0]), int_of(run, w[1]), int_of(run, w[2]));
}

/* ---- the step ---- */

static talus_status step(Run *run, Words w) { return talus_step(opt_of(run, w[0]), NULL); }
static talus_status advance(Run *run, Words w) { return talus_advance(opt_of(run, w[0]), NULL); }

static int32_t closure(void *user, double *loss) {
  *loss = *(const double *)user;
  return 0;
}

static talus_status step_closure(Run *run, Words w) {
  double given = double_of(run, w[1]), loss = 0;
  talus_status status = talus_step_closure(opt_of(run, w[0]), closure, &given, &loss, NULL);
  return answer_value(run, status, loss);
}

static talus_status stat(Run *run, Words w) {
  talus_stats stats;
  memset(&stats, 0, sizeof stats);
  stats.struct_size = sizeof stats;
  talus_status status = talus_get_stats(opt_of(run, w[0]), 1, &stats);
  if (strcmp(w[1], "found_inf") == 0) return answer_int(run, status, stats.found_inf);
  if (strcmp(w[1], "steps") == 0) return answer_int(run, status, stats.steps);
  if (strcmp(w[1], "skipped") == 0) return answer_int(run, status, stats.skipped);
  if (strcmp(w[1], "nonfinite_param") == 0) return answer_int(run, status, stats.nonfinite_param);
  stop_at(&run->script, "no field %s", w[1]);
}

/* ---- schedules ---- */

static talus_status schedule(Run *run, Words w) {
  talus_schedule *made;
  talus_status status = talus_schedule_create(w[1], &made);
  if (status != TALUS_OK) return status;
  add_object(&run->script, &run->objects, w[0], kSchedule, made);
  note_made(run, w[1]);
  return TALUS_OK;
}

static talus_status schedule_set(Run *run, Words w) {
  return talus_schedule_set(schedule_of(run, w[0]), w[1], double_of(run, w[2]));
}

static talus_status schedule_list(Run *run, Words w) {
  int64_t values[kMostWords], length = 0;
  for (; w[2 + length]; ++length) values[length] = int_of(run, w[2 + length]);
  return talus_schedule_set_list(schedule_of(run, w[0]), w[1], values, length);
}

static talus_status schedule_add(Run *run, Words w) {
  return talus_schedule_add(schedule_of(run, w[0]), schedule_of(run, w[1]));
}

static double falls(void *user, int64_t t) {
  double d = *(const double *)user;
  return d / (d + (double)t);
}

static talus_status schedule_function(Run *run, Words w) {
  double *d = malloc(sizeof *d);
  *d = double_of(run, w[1]);
  talus_status status = talus_schedule_set_function(schedule_of(run, w[0]), falls, d, free);
  if (status != TALUS_OK) free(d);
  return status;
}

static talus_status schedule_value(Run *run, Words w) {
  double value = 0;
  talus_status status =
      talus_schedule_value(schedule_of(run, w[0]), double_of(run, w[1]), int_of(run, w[2]), &value);
  return answer_value(run, status, value);
}

static talus_status attach(Run *run, Words w) {
  return talus_attach_schedule(opt_of(run, w[0]), index_of(run, w[1]), w[2], schedule_of(run, w[3]),
                               TALUS_CLOCK_APPLIED);
}

static talus_status value_now(Run *run, Words w) {
  double value = 0;
  talus_status status = talus_value_now(opt_of(run, w[0]), index_of(run, w[1]), w[2], &value);
  return answer_value(run, status, value);
}

static talus_status observe(Run *run, Words w) {
  return talus_observe(opt_of(run, w[0]), double_of(run, w[1]));
}

/* ---- mixed precision ---- */

static talus_status scaler(Run *run, Words w) {
  talus_scaler *made;
  talus_status status = talus_scaler_create(TALUS_CPU, 0, &made);
  if (status == TALUS_OK) add_object(&run->script, &run->objects, w[0], kScaler, made);
  return status;
}

static talus_status scaler_set(Run *run, Words w) {
  return talus_scaler_set(scaler_of(run, w[0]), w[1], double_of(run, w[2]));
}

static talus_status scale(Run *run, Words w) {
  double value = 0;
  talus_status status = talus_scaler_scale(scaler_of(run, w[0]), &value);
  return answer_value(run, status, value);
}

static talus_status attach_scaler(Run *run, Words w) {
  return talus_attach_scaler(opt_of(run, w[0]), scaler_of(run, w[1]));
}

static talus_status update(Run *run, Words w) {
  return talus_scaler_update(scaler_of(run, w[0]), NULL);
}

static talus_status norm(Run *run, Words w) {
  talus_optimizer *opt = opt_of(run, w[0]);
  double value = 0;
  talus_status status =
      talus_grad_norm(&opt, 1, index_of(run, w[1]), double_of(run, w[2]), &value, NULL);
  return answer_value(run, status, value);
}

static talus_status clip(Run *run, Words w) {
  talus_optimizer *opt = opt_of(run, w[0]);
  double value = 0, most = double_of(run, w[2]), type = double_of(run, w[3]);
  talus_status status =
      talus_clip_grad_norm(&opt, 1, index_of(run, w[1]), most, type, &value, NULL);
  return answer_value(run, status, value);
}

static talus_status export_param(Run *run, Words w) {
  const talus_optimizer *opt = opt_of(run, w[0]);
  int64_t param = int_of(run, w[1]), length = 1;
  talus_param info;
  memset(&info, 0, sizeof info);
  info.struct_size = sizeof info;
  talus_status status = talus_param_info(opt, param, &info);
  if (status != TALUS_OK) return status;
  for (int32_t i = 0; i < info.ndim; ++i) length *= info.shape[i];
  float *copy = calloc((size_t)length + 1, sizeof *copy);
  status = talus_export_param(opt_of(run, w[0]), w[2], param, copy, TALUS_F32, NULL);
  if (status == TALUS_OK) answer_elements(run, copy, TALUS_F32, length);
  free(copy);
  return status;
}

static talus_status bytes(Run *run, Words w) {
  talus_bytes out;
  memset(&out, 0, sizeof out);
  out.struct_size = sizeof out;
  talus_param param = describe(run, w[4], w[5]);
  param.dtype = dtype_of(&run->script, w[2]);
  param.grad_dtype = dtype_or_none(&run->script, w[3]);
  talus_status status = talus_bytes_per_param(opt_of(run, w[0]), index_of(run, w[1]), &param, &out);
  if (status != TALUS_OK) return status;
  const double fields[] = {out.param, out.grad, out.master, out.state, out.read, out.written};
  for (int i = 0; i < 6; ++i) answer_double(&run->script, fields[i]);
  return TALUS_OK;
}

/* ---- checkpoints, the end ---- */

static const char *path_of(Run *run, const char *name) {
  return path_in(&run->script, &run->folder, name);
}

static talus_status save(Run *run, Words w) {
  return talus_save(opt_of(run, w[0]), path_of(run, w[1]), NULL, NULL);
}

static talus_status load(Run *run, Words w) {
  return talus_load(opt_of(run, w[0]), path_of(run, w[1]), NULL, NULL);
}

static talus_status truncate_file(Run *run, Words w) {
  if (truncate(path_of(run, w[0]), int_of(run, w[1])) != 0)
    stop_at(&run->script, "%s cannot be cut", w[0]);
  return TALUS_OK;
}

static talus_status same_file(Run *run, Words w) {
  if (!same_bytes(&run->script, path_of(run, w[0]), path_of(run, w[1])))
    stop_at(&run->script, "%s and %s differ", w[0], w[1]);
  return TALUS_OK;
}

static talus_status destroy(Run *run, Words w) {
  Object *object = look_up(&run->objects, w[0]);
  if (object == NULL || object->kind == kArray) stop_at(&run->script, "there is no %s", w[0]);
  if (object->memory) destroy_object(object);
  return TALUS_OK;
}

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
