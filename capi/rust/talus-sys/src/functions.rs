//! The functions of `talus.h`, in its order.

use crate::*;

extern "C" {
    pub fn talus_version() -> u32;
    pub fn talus_abi_version() -> u32;
    pub fn talus_build_info() -> *const c_char;
    pub fn talus_name_count(list: *const c_char) -> i32;
    pub fn talus_name_at(list: *const c_char, i: i32) -> *const c_char;
    pub fn talus_name_doc(list: *const c_char, name: *const c_char) -> *const c_char;
    pub fn talus_has_feature(name: *const c_char) -> i32;
    pub fn talus_status_name(status: talus_status) -> *const c_char;
    pub fn talus_last_error() -> *const c_char;
    pub fn talus_last_error_detail() -> i64;
    pub fn talus_hyper_count(owner: *const c_char) -> i32;
    pub fn talus_hyper_info(owner: *const c_char, i: i32, out: *mut talus_hyper) -> talus_status;
    pub fn talus_create(
        algorithm: *const c_char,
        device_type: i32,
        device_id: i32,
        out: *mut *mut talus_optimizer,
    ) -> talus_status;
    pub fn talus_destroy(opt: *mut talus_optimizer);
    pub fn talus_add_group(
        opt: *mut talus_optimizer,
        algorithm: *const c_char,
        group: *mut i32,
    ) -> talus_status;
    pub fn talus_group_count(opt: *const talus_optimizer) -> i32;
    pub fn talus_group_algorithm(opt: *const talus_optimizer, group: i32) -> *const c_char;
    pub fn talus_set(
        opt: *mut talus_optimizer,
        group: i32,
        name: *const c_char,
        value: f64,
    ) -> talus_status;
    pub fn talus_get(
        opt: *const talus_optimizer,
        group: i32,
        name: *const c_char,
        value: *mut f64,
    ) -> talus_status;
    pub fn talus_set_setting(
        opt: *mut talus_optimizer,
        name: *const c_char,
        value: f64,
    ) -> talus_status;
    pub fn talus_get_setting(
        opt: *const talus_optimizer,
        name: *const c_char,
        value: *mut f64,
    ) -> talus_status;
    pub fn talus_add_params(
        opt: *mut talus_optimizer,
        group: i32,
        count: i64,
        params: *const talus_param,
        first: *mut i64,
    ) -> talus_status;
    pub fn talus_param_count(opt: *const talus_optimizer) -> i64;
    pub fn talus_param_info(
        opt: *const talus_optimizer,
        param: i64,
        out: *mut talus_param,
    ) -> talus_status;
    pub fn talus_param_group(opt: *const talus_optimizer, param: i64) -> i32;
    pub fn talus_find_param(opt: *const talus_optimizer, name: *const c_char) -> i64;
    pub fn talus_move_params(
        opt: *mut talus_optimizer,
        group: i32,
        count: i64,
        params: *const i64,
    ) -> talus_status;
    pub fn talus_remove_params(
        opt: *mut talus_optimizer,
        count: i64,
        params: *const i64,
    ) -> talus_status;
    pub fn talus_bind_data(
        opt: *mut talus_optimizer,
        param: i64,
        data: *mut c_void,
    ) -> talus_status;
    pub fn talus_bind_grads(
        opt: *mut talus_optimizer,
        first: i64,
        count: i64,
        grads: *const *mut c_void,
    ) -> talus_status;
    pub fn talus_bind_rows(
        opt: *mut talus_optimizer,
        param: i64,
        rows: *const talus_rows,
    ) -> talus_status;
    pub fn talus_zero_grad(
        opt: *mut talus_optimizer,
        mode: i32,
        stream: *mut c_void,
    ) -> talus_status;
    pub fn talus_state_count(opt: *const talus_optimizer) -> i64;
    pub fn talus_state_info(
        opt: *const talus_optimizer,
        i: i64,
        out: *mut talus_state,
    ) -> talus_status;
    pub fn talus_bind_state(
        opt: *mut talus_optimizer,
        param: i64,
        slot: *const c_char,
        data: *mut c_void,
        bytes: u64,
    ) -> talus_status;
    pub fn talus_steps(opt: *const talus_optimizer, param: i64, steps: *mut i64) -> talus_status;
    pub fn talus_set_steps(opt: *mut talus_optimizer, param: i64, steps: i64) -> talus_status;
    pub fn talus_prepare(opt: *mut talus_optimizer, stream: *mut c_void) -> talus_status;
    pub fn talus_step(opt: *mut talus_optimizer, stream: *mut c_void) -> talus_status;
    pub fn talus_advance(opt: *mut talus_optimizer, stream: *mut c_void) -> talus_status;
    pub fn talus_step_closure(
        opt: *mut talus_optimizer,
        closure: talus_closure,
        user: *mut c_void,
        loss: *mut f64,
        stream: *mut c_void,
    ) -> talus_status;
    pub fn talus_schedule_create(
        kind: *const c_char,
        out: *mut *mut talus_schedule,
    ) -> talus_status;
    pub fn talus_schedule_destroy(schedule: *mut talus_schedule);
    pub fn talus_schedule_kind(schedule: *const talus_schedule) -> *const c_char;
    pub fn talus_schedule_set(
        schedule: *mut talus_schedule,
        name: *const c_char,
        value: f64,
    ) -> talus_status;
    pub fn talus_schedule_get(
        schedule: *const talus_schedule,
        name: *const c_char,
        value: *mut f64,
    ) -> talus_status;
    pub fn talus_schedule_set_list(
        schedule: *mut talus_schedule,
        name: *const c_char,
        values: *const i64,
        count: i64,
    ) -> talus_status;
    pub fn talus_schedule_get_list(
        schedule: *const talus_schedule,
        name: *const c_char,
        values: *mut i64,
        capacity: i64,
        count: *mut i64,
    ) -> talus_status;
    pub fn talus_schedule_set_function(
        schedule: *mut talus_schedule,
        function: talus_schedule_function,
        user: *mut c_void,
        destroy: Option<unsafe extern "C" fn(user: *mut c_void)>,
    ) -> talus_status;
    pub fn talus_schedule_add(
        schedule: *mut talus_schedule,
        piece: *mut talus_schedule,
    ) -> talus_status;
    pub fn talus_schedule_piece_count(schedule: *const talus_schedule) -> i32;
    pub fn talus_schedule_piece(
        schedule: *const talus_schedule,
        i: i32,
        out: *mut *mut talus_schedule,
    ) -> talus_status;
    pub fn talus_schedule_value(
        schedule: *const talus_schedule,
        base: f64,
        t: i64,
        value: *mut f64,
    ) -> talus_status;
    pub fn talus_attach_schedule(
        opt: *mut talus_optimizer,
        group: i32,
        hyper: *const c_char,
        schedule: *mut talus_schedule,
        clock: i32,
    ) -> talus_status;
    pub fn talus_get_schedule(
        opt: *const talus_optimizer,
        group: i32,
        hyper: *const c_char,
        schedule: *mut *mut talus_schedule,
        clock: *mut i32,
    ) -> talus_status;
    pub fn talus_value_now(
        opt: *const talus_optimizer,
        group: i32,
        name: *const c_char,
        value: *mut f64,
    ) -> talus_status;
    pub fn talus_set_clock(opt: *mut talus_optimizer, t: i64) -> talus_status;
    pub fn talus_get_clock(opt: *const talus_optimizer, clock: i32, t: *mut i64) -> talus_status;
    pub fn talus_observe(opt: *mut talus_optimizer, metric: f64) -> talus_status;
    pub fn talus_scaler_create(
        device_type: i32,
        device_id: i32,
        out: *mut *mut talus_scaler,
    ) -> talus_status;
    pub fn talus_scaler_destroy(scaler: *mut talus_scaler);
    pub fn talus_scaler_set(
        scaler: *mut talus_scaler,
        name: *const c_char,
        value: f64,
    ) -> talus_status;
    pub fn talus_scaler_get(
        scaler: *const talus_scaler,
        name: *const c_char,
        value: *mut f64,
    ) -> talus_status;
    pub fn talus_scaler_scale(scaler: *mut talus_scaler, scale: *mut f64) -> talus_status;
    pub fn talus_scaler_update(scaler: *mut talus_scaler, stream: *mut c_void) -> talus_status;
    pub fn talus_attach_scaler(
        opt: *mut talus_optimizer,
        scaler: *mut talus_scaler,
    ) -> talus_status;
    pub fn talus_bind_scale(
        opt: *mut talus_optimizer,
        scale: *const f32,
        found: *const f32,
    ) -> talus_status;
    pub fn talus_grad_norm(
        opts: *const *mut talus_optimizer,
        count: i32,
        group: i32,
        norm_type: f64,
        norm: *mut f64,
        stream: *mut c_void,
    ) -> talus_status;
    pub fn talus_clip_grad_norm(
        opts: *const *mut talus_optimizer,
        count: i32,
        group: i32,
        max_norm: f64,
        norm_type: f64,
        norm: *mut f64,
        stream: *mut c_void,
    ) -> talus_status;
    pub fn talus_export_param(
        opt: *mut talus_optimizer,
        view: *const c_char,
        param: i64,
        data: *mut c_void,
        dtype: i32,
        stream: *mut c_void,
    ) -> talus_status;
    pub fn talus_import_param(
        opt: *mut talus_optimizer,
        view: *const c_char,
        param: i64,
        data: *const c_void,
        dtype: i32,
        stream: *mut c_void,
    ) -> talus_status;
    pub fn talus_bytes_per_param(
        opt: *const talus_optimizer,
        group: i32,
        param: *const talus_param,
        out: *mut talus_bytes,
    ) -> talus_status;
    pub fn talus_get_stats(
        opt: *mut talus_optimizer,
        wait: i32,
        out: *mut talus_stats,
    ) -> talus_status;
    pub fn talus_save(
        opt: *mut talus_optimizer,
        path: *const c_char,
        io: *const talus_io,
        stream: *mut c_void,
    ) -> talus_status;
    pub fn talus_load(
        opt: *mut talus_optimizer,
        path: *const c_char,
        io: *const talus_io,
        stream: *mut c_void,
    ) -> talus_status;
    pub fn talus_save_to(
        opt: *mut talus_optimizer,
        writer: *const talus_writer,
        io: *const talus_io,
        stream: *mut c_void,
    ) -> talus_status;
    pub fn talus_load_from(
        opt: *mut talus_optimizer,
        reader: *const talus_reader,
        io: *const talus_io,
        stream: *mut c_void,
    ) -> talus_status;
    pub fn talus_set_note(
        opt: *mut talus_optimizer,
        key: *const c_char,
        text: *const c_char,
    ) -> talus_status;
    pub fn talus_get_note(
        opt: *const talus_optimizer,
        key: *const c_char,
        text: *mut c_char,
        capacity: u64,
        needed: *mut u64,
    ) -> talus_status;
    pub fn talus_set_parallel_for(
        opt: *mut talus_optimizer,
        run: talus_parallel_for,
        user: *mut c_void,
    ) -> talus_status;
    pub fn talus_set_allocator(
        opt: *mut talus_optimizer,
        allocator: *const talus_allocator,
    ) -> talus_status;
    pub fn talus_set_plugin_path(folders: *const c_char) -> talus_status;
    pub fn talus_set_log(log: talus_log, level: i32, user: *mut c_void);
}
