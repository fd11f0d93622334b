//! Closures, threads and memory of the host; panics in them.

use std::alloc::{alloc, dealloc, Layout};
use std::collections::HashMap;
use std::ffi::c_void;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use talus::{
    set_log, silence_log, Allocate, Error, ErrorKind, Group, Level, Optimizer, Param, Result,
    Tensor, ZeroGrad,
};

fn sgd<'t>() -> Result<Optimizer<'t>> {
    Optimizer::builder("sgd").set("lr", 1.0).build()
}

fn text_of(panic: Box<dyn std::any::Any + Send>) -> String {
    panic.downcast_ref::<&str>().map_or_else(String::new, |text| text.to_string())
}

#[test]
fn a_closure_uses_tensors_and_binds_gradients() -> Result<()> {
    let (mut a, mut b, mut gb, late) = ([1.0f32], [2.0f32], [5.0f32], [0.5f32]);
    let mut opt = sgd()?;
    let a = opt.add(Group(0), Tensor::new(&mut a))?;
    let b = opt.add(Group(0), Tensor::new(&mut b).grad_mut(&mut gb))?;
    let loss = opt.step_closure(|eval| {
        eval.zero_grad(ZeroGrad::Fill)?;
        assert_eq!(eval.grad_mut::<f32>(b)?, [0.0]);
        eval.tensors_mut::<f32>(&[b])?[0].1[0] = 1.0;
        eval.bind_grad(a, &late)?;
        Ok(f64::from(eval.data::<f32>(a)?[0]))
    })?;
    assert_eq!(
        (loss, opt.data::<f32>(a)?, opt.data::<f32>(b)?),
        (1.0, &[0.5f32][..], &[1.0f32][..])
    );
    let error = opt.step_closure(|eval| eval.bind_grad(Param(9), &late).map(|()| 0.0));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Argument);
    Ok(())
}

#[test]
fn a_closure_that_fails_takes_no_step() -> Result<()> {
    let (mut w, g) = ([1.0f32], [1.0f32]);
    let mut opt = sgd()?;
    let w = opt.add(Group(0), Tensor::new(&mut w).grad(&g))?;
    let error = opt.step_closure(|_| Err(Error::from_callback(7, "no more data"))).unwrap_err();
    assert_eq!((error.kind(), error.detail()), (ErrorKind::Callback, 7));
    assert_eq!(error.message(), "no more data");
    assert!(opt.step_closure(|_| Err(Error::from_callback(0, "0 is a failure as well"))).is_err());
    let thrown = catch_unwind(AssertUnwindSafe(|| opt.step_closure(|_| panic!("burst"))));
    assert_eq!(text_of(thrown.unwrap_err()), "burst");
    assert_eq!((opt.data::<f32>(w)?, opt.steps(w)?), (&[1.0f32][..], 0));
    assert_eq!(opt.step_closure(|_| Ok(3.0))?, 3.0);
    Ok(())
}

/// Steps on threads as `run` has it, and says what came of it.
fn trained(
    run: impl Fn(&talus::Tasks<'_>) + Send + 'static,
    threads: f64,
) -> Result<(Vec<f32>, thread::Result<Result<()>>)> {
    let count = 300_000;
    let mut w: Vec<f32> = (0..count).map(|i| i as f32 / 7.0).collect();
    let g = w.clone();
    let mut opt = Optimizer::builder("adamw").setting("threads", threads).build()?;
    opt.set_setting("chunk_tiles", 1.0)?;
    opt.add(Group(0), Tensor::new(&mut w).grad(&g))?;
    opt.set_parallel_for(run)?;
    let done = catch_unwind(AssertUnwindSafe(|| opt.step()));
    drop(opt);
    Ok((w, done))
}

#[test]
fn threads_of_the_host_take_each_task_once() -> Result<()> {
    let (alone, _) = trained(|_| (), 1.0)?;
    let (ran, all) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, told) = (ran.clone(), all.clone());
    let (spread, done) = trained(
        move |tasks| {
            told.fetch_add(tasks.count(), Ordering::Relaxed);
            thread::scope(|scope| {
                for _ in 0..tasks.count() + 3 {
                    scope.spawn(|| counted.fetch_add(tasks.run_one().into(), Ordering::Relaxed));
                }
            });
        },
        3.0,
    )?;
    let (ran, all) = (ran.load(Ordering::Relaxed), all.load(Ordering::Relaxed));
    assert_eq!((done.unwrap(), ran), (Ok(()), all));
    assert!(all >= 3);
    assert!(spread == alone);
    let (left, done) = trained(|tasks| assert!(tasks.run_one()), 3.0)?; // the rest is done for it
    assert!(done.unwrap().is_ok() && left == alone);
    Ok(())
}

#[test]
fn a_panic_in_a_loop_comes_out_of_a_whole_step() -> Result<()> {
    let (alone, _) = trained(|_| (), 1.0)?;
    let (whole, done) = trained(|_| panic!("no threads"), 3.0)?;
    assert_eq!(text_of(done.unwrap_err()), "no threads");
    assert!(whole == alone);
    let mut opt = sgd()?;
    opt.set_parallel_for(|tasks| tasks.run_rest())?;
    opt.unset_parallel_for()
}

/// Lends from the global allocator, and knows what is out.
struct Counted(Arc<Mutex<HashMap<usize, Layout>>>);

// SAFETY: memory of the global allocator, given back with the layout it was asked for.
unsafe impl Allocate for Counted {
    fn allocate(&self, bytes: u64, alignment: u64, stream: *mut c_void) -> *mut c_void {
        assert!(stream.is_null());
        let layout = Layout::from_size_align(bytes as usize, alignment as usize).unwrap();
        // SAFETY: the library asks for bytes.
        let data = unsafe { alloc(layout) };
        self.0.lock().unwrap().insert(data as usize, layout);
        data.cast()
    }
    fn release(&self, data: *mut c_void, bytes: u64, _: *mut c_void) {
        let layout = self.0.lock().unwrap().remove(&(data as usize)).unwrap();
        assert_eq!(layout.size() as u64, bytes);
        // SAFETY: it was allocated so.
        unsafe { dealloc(data.cast(), layout) };
    }
}

/// Has nothing to give.
struct Nothing(Arc<()>);

// SAFETY: gives no memory.
unsafe impl Allocate for Nothing {
    fn allocate(&self, _: u64, _: u64, _: *mut c_void) -> *mut c_void {
        let _ = &self.0;
        panic!("out of memory")
    }
    fn release(&self, _: *mut c_void, _: u64, _: *mut c_void) {}
}

#[test]
fn state_comes_from_the_hosts_memory() -> Result<()> {
    let out = Arc::new(Mutex::new(HashMap::new()));
    let (mut w, g) = ([1.0f32; 100], [1.0f32; 100]);
    let mut opt = Optimizer::new("adamw")?;
    opt.set_allocator(Counted(out.clone()))?;
    opt.add(Group(0), Tensor::new(&mut w).grad(&g))?;
    opt.step()?;
    let bytes: usize = out.lock().unwrap().values().map(Layout::size).sum();
    let stats = opt.stats(true)?;
    assert_eq!(bytes as u64, stats.state_bytes + stats.workspace_bytes);
    assert!(bytes >= 800);
    let refused = opt.set_allocator(Counted(out.clone())).unwrap_err();
    assert_eq!((refused.kind(), Arc::strong_count(&out)), (ErrorKind::State, 2));
    drop(opt);
    assert!(out.lock().unwrap().is_empty() && Arc::strong_count(&out) == 1);
    Ok(())
}

#[test]
fn a_panic_of_an_allocator_comes_out_of_the_step() -> Result<()> {
    let (alive, mut w, g) = (Arc::new(()), [1.0f32; 4], [1.0f32; 4]);
    let mut opt = Optimizer::new("adamw")?;
    opt.add(Group(0), Tensor::new(&mut w).grad(&g))?;
    opt.set_allocator(Nothing(alive.clone()))?;
    let thrown = catch_unwind(AssertUnwindSafe(|| opt.step())).unwrap_err();
    assert_eq!(text_of(thrown), "out of memory");
    drop(opt);
    assert_eq!((w, Arc::strong_count(&alive)), ([1.0; 4], 1));
    Ok(())
}

#[test]
fn the_log_is_the_processs() -> Result<()> {
    let (lines, panics) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
    let kept = lines.clone();
    set_log(Level::Info, move |level, text| kept.lock().unwrap().push((level, text.to_string())));
    Optimizer::new("lamb")?;
    let heard = |name: &str| {
        let is_it = |(level, text): &(Level, String)| *level == Level::Info && text.contains(name);
        lines.lock().unwrap().iter().any(is_it)
    };
    assert!(heard("lamb"));
    let counted = panics.clone();
    set_log(Level::Info, move |_, text| {
        if text.contains("nadam") {
            counted.fetch_add(1, Ordering::Relaxed);
            panic!("in the log");
        }
    });
    assert_eq!(Arc::strong_count(&lines), 1); // what was replaced has gone
    let made = Optimizer::new("nadam")?; // the panic ended in the log
    assert_eq!((made.group_count(), panics.load(Ordering::Relaxed)), (1, 1));
    silence_log();
    assert_eq!(Arc::strong_count(&panics), 1);
    Optimizer::new("nadam").map(drop)
}
