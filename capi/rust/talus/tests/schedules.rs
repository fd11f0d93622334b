//! Schedules: of their own, attached, as pieces, of functions.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use talus::{
    Clock, ErrorKind, Group, LoadOptions, Optimizer, Result, SaveOptions, Schedule, Tensor,
};

#[test]
fn parameters_and_milestones_are_read_back() -> Result<()> {
    let mut schedule = Schedule::multistep(&[30, 10], &[("gamma", 0.5)])?;
    assert_eq!((schedule.kind().as_str(), schedule.get("gamma")?), ("multistep", 0.5));
    assert_eq!(schedule.milestones()?, [10, 30]);
    schedule.set_milestones(&[1, 2, 3])?;
    schedule.set("gamma", 0.25)?;
    assert_eq!((schedule.milestones()?.len(), schedule.value(1.0, 2)?), (3, 0.0625));
    let error = Schedule::new("cosine", &[("no_such", 1.0)]).unwrap_err();
    assert!(error.kind() == ErrorKind::Name && error.message().contains("T_max"), "{error}");
    assert_eq!(Schedule::new("no_such", &[]).unwrap_err().kind(), ErrorKind::Name);
    assert!(Schedule::new("cosine", &[])?.get("T_max")?.is_nan());
    assert_eq!(schedule.value(1.0, -1).unwrap_err().kind(), ErrorKind::Range);
    Ok(())
}

#[test]
fn an_attached_schedule_is_reached_through_its_optimizer() -> Result<()> {
    let mut opt = Optimizer::builder("adamw").set("lr", 1.0).build()?;
    let biases = opt.add_group(None, &[("lr", 2.0)])?;
    let halves = Schedule::new("step", &[("step_size", 1.0), ("gamma", 0.5)])?;
    opt.attach(Group::ALL, "lr", halves, Clock::Manual)?;
    opt.set_clock(1)?;
    assert_eq!((opt.value_now(Group(0), "lr")?, opt.value_now(biases, "lr")?), (0.5, 1.0));
    assert_eq!(opt.get(Group(0), "lr")?, 1.0);
    let mut attached = opt.schedule_mut(biases, "lr")?.unwrap();
    assert_eq!((attached.kind().as_str(), attached.clock()), ("step", Clock::Manual));
    attached.set("gamma", 0.25)?;
    assert_eq!(opt.value_now(Group(0), "lr")?, 0.25); // one schedule for both
    assert_eq!(opt.schedule(Group(0), "lr")?.unwrap().get("gamma")?, 0.25);
    let again = opt.attach(Group(0), "lr", Schedule::new("constant", &[])?, Clock::Applied);
    assert_eq!(again.unwrap_err().kind(), ErrorKind::State);
    opt.detach(Group::ALL, "lr")?;
    assert!(opt.schedule(Group(0), "lr")?.is_none());
    let wrong = opt.attach(Group(0), "no_such", Schedule::new("constant", &[])?, Clock::Applied);
    assert_eq!(wrong.unwrap_err().kind(), ErrorKind::Name);
    Ok(())
}

#[test]
fn pieces_belong_to_their_whole() -> Result<()> {
    let warmup = Schedule::new("linear", &[("start_factor", 0.5), ("total_iters", 2.0)])?;
    let both = Schedule::chained([warmup, Schedule::new("exponential", &[("gamma", 0.5)])?])?;
    assert_eq!((both.piece_count(), both.value(8.0, 2)?), (2, 2.0));
    assert_eq!(both.piece(1)?.kind(), "exponential");
    assert_eq!(both.piece(2).unwrap_err().kind(), ErrorKind::Argument);
    let mut plain = Schedule::new("cosine", &[])?;
    assert_eq!(plain.add(both).unwrap_err().kind(), ErrorKind::Unsupported);
    Ok(())
}

#[test]
fn plateau_learns_from_reports() -> Result<()> {
    let mut opt = Optimizer::builder("sgd").set("lr", 1.0).build()?;
    assert_eq!(opt.observe(1.0).unwrap_err().kind(), ErrorKind::State);
    let plateau = Schedule::new("plateau", &[("patience", 0.0), ("factor", 0.5)])?;
    opt.attach(Group(0), "lr", plateau, Clock::Applied)?;
    opt.observe(1.0)?;
    opt.observe(2.0)?;
    assert_eq!(opt.value_now(Group(0), "lr")?, 0.5);
    Ok(())
}

#[test]
fn functions_are_called_and_freed_once() -> Result<()> {
    let alive = Arc::new(());
    let calls = Arc::new(AtomicUsize::new(0));
    let function = |alive: &Arc<()>| {
        let (alive, calls) = (alive.clone(), calls.clone());
        move |t: i64| {
            let _ = &alive;
            calls.fetch_add(1, Ordering::Relaxed);
            1.0 / (t + 1) as f64
        }
    };
    let mut schedule = Schedule::lambda(function(&alive))?;
    assert_eq!((schedule.value(6.0, 2)?, calls.load(Ordering::Relaxed)), (2.0, 1));
    schedule.set_function(function(&alive))?;
    assert_eq!(Arc::strong_count(&alive), 2);
    let refused = Schedule::new("cosine", &[])?.set_function(function(&alive)).unwrap_err();
    assert_eq!((refused.kind(), Arc::strong_count(&alive)), (ErrorKind::Unsupported, 2));
    let mut opt = Optimizer::builder("sgd").set("lr", 1.0).build()?;
    opt.attach(Group(0), "lr", schedule, Clock::Applied)?;
    assert_eq!((opt.value_now(Group(0), "lr")?, Arc::strong_count(&alive)), (1.0, 2));
    let product = Schedule::multiplicative(|_| 0.5)?;
    assert_eq!(product.value(1.0, 3)?, 0.125);
    drop(opt);
    assert_eq!(Arc::strong_count(&alive), 1);
    Ok(())
}

#[test]
fn a_panic_of_a_function_comes_out_of_the_step() -> Result<()> {
    let (mut w, g) = ([1.0f32], [1.0f32]);
    let mut opt = Optimizer::builder("sgd").set("lr", 1.0).build()?;
    let param = opt.add(Group(0), Tensor::new(&mut w).grad(&g))?;
    let schedule = Schedule::lambda(|t| if t < 1 { 1.0 } else { panic!("at {t}") })?;
    opt.attach(Group(0), "lr", schedule, Clock::Applied)?;
    opt.step()?;
    let thrown = catch_unwind(AssertUnwindSafe(|| opt.step())).unwrap_err();
    assert_eq!(thrown.downcast_ref::<String>().unwrap(), "at 1");
    assert_eq!((opt.data::<f32>(param)?, opt.steps(param)?), (&[0.0f32][..], 1));
    opt.detach(Group(0), "lr")?;
    opt.step()?; // the panic is not told twice
    assert_eq!(opt.data::<f32>(param)?, [-1.0]);
    Ok(())
}

#[test]
fn a_load_loses_functions_until_they_are_given_again() -> Result<()> {
    let (mut w, g, mut bytes) = ([1.0f32], [1.0f32], Vec::new());
    let mut opt = Optimizer::builder("sgd").set("lr", 1.0).build()?;
    opt.add(Group(0), Tensor::new(&mut w).grad(&g))?;
    opt.attach(Group(0), "lr", Schedule::lambda(|t| (t + 1) as f64)?, Clock::Applied)?;
    opt.step()?;
    opt.save_to(&mut bytes, SaveOptions::new())?;
    opt.load_from(&mut std::io::Cursor::new(&bytes), LoadOptions::new())?;
    let error = opt.step().unwrap_err();
    assert!(error.kind() == ErrorKind::State && error.message().contains("lambda"), "{error}");
    opt.schedule_mut(Group(0), "lr")?.unwrap().set_function(|t| (t + 1) as f64)?;
    assert_eq!(opt.value_now(Group(0), "lr")?, 2.0);
    opt.step()
}

#[test]
fn a_schedule_moves_to_another_thread() -> Result<()> {
    let schedule = Schedule::lambda(|t| t as f64)?;
    let value = std::thread::spawn(move || schedule.value(2.0, 3)).join().unwrap()?;
    assert_eq!(value, 6.0);
    Ok(())
}
