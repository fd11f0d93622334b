//! Life: threads, and ten thousand lives of everything that has a handle.

use std::thread;

use talus::{Clock, Group, LoadOptions, Optimizer, Result, SaveOptions, Scaler, Schedule, Tensor};

#[test]
fn an_optimizer_moves_between_threads() -> Result<()> {
    let (mut w, g) = ([3.0f32], [1.0f32]);
    let mut opt = Optimizer::builder("sgd").set("lr", 1.0).build()?;
    let param = opt.add(Group(0), Tensor::new(&mut w).grad(&g))?;
    for _ in 0..2 {
        opt = thread::scope(|scope| {
            let stepped = scope.spawn(move || opt.step().map(|()| opt));
            stepped.join().unwrap()
        })?;
    }
    assert_eq!(opt.data::<f32>(param)?, [1.0]);
    Ok(())
}

#[test]
fn errors_are_of_the_thread_that_made_them() {
    let texts: Vec<_> = thread::scope(|scope| {
        let of = |i: i32| move || Optimizer::new(&format!("rule{i}")).unwrap_err().to_string();
        let threads: Vec<_> = (0..4).map(|i| scope.spawn(of(i))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (i, text) in texts.iter().enumerate() {
        assert!(text.contains(&format!("rule{i}")), "{text}");
    }
}

fn live() -> Result<()> {
    let (mut w, mut v, g) = ([1.0f32; 6], [1.0f32; 6], [1.0f32; 6]);
    let mut scoped = [1.0f32; 6];
    let scaler = Scaler::new(&[])?;
    let mut opt = Optimizer::builder("adamw").set("lr", 0.1).build()?;
    let other = opt.add_group(Some("lamb"), &[])?;
    opt.attach_scaler(Some(&scaler))?;
    let kept = [0u8; 64];
    let scaled = Schedule::lambda(move |t| if t > 0 { 0.5 } else { 1.0 + f64::from(kept[0]) })?;
    let both = Schedule::chained([Schedule::new("linear", &[])?, scaled])?;
    opt.attach(Group::ALL, "lr", both, Clock::Applied)?;
    opt.set_parallel_for(move |tasks| tasks.run_rest())?;
    opt.add(Group(0), Tensor::new(&mut w).grad(&g).shape(&[2, 3]))?;
    opt.add(other, Tensor::new(&mut v).grad(&g).shape(&[2, 3]).name("v"))?;
    opt.add_scoped(other, Tensor::new(&mut scoped))?;
    let mut bytes = Vec::new();
    opt.with([Tensor::new(&mut scoped).grad(&g)], |opt| -> Result<()> {
        opt.clip_grad_norm(Group::ALL, 1.0, 2.0)?;
        opt.step_closure(|_| Ok(1.0))?;
        scaler.update()?;
        opt.set_note("epoch", Some("1"))?;
        opt.save_to(&mut bytes, SaveOptions::new().progress(|_, _| true))?;
        opt.load_from(&mut std::io::Cursor::new(&bytes), LoadOptions::new())?;
        drop(opt.schedule(Group(0), "lr")?);
        Ok(())
    })??;
    assert!(opt.set(Group::ALL, "no_such", 1.0).is_err());
    Ok(())
}

/// In KiB.
#[cfg(target_os = "linux")]
fn resident_set() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// What the allocator keeps settles early; a leak of 100 bytes a life would show as 800 KiB.
#[test]
#[cfg(target_os = "linux")]
fn ten_thousand_lives_leave_nothing() -> Result<()> {
    (0..2_000).try_for_each(|_| live())?;
    let before = resident_set();
    (0..8_000).try_for_each(|_| live())?;
    let grown = resident_set().saturating_sub(before);
    assert!(grown < 512, "the resident set grew by {grown} KiB from {before} KiB");
    Ok(())
}
