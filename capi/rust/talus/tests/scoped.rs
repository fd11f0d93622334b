//! Tensors that are lent for one call.

use std::panic::{catch_unwind, AssertUnwindSafe};

use talus::{ErrorKind, Group, LoadOptions, Optimizer, Result, SaveOptions, Tensor, ZeroGrad};

fn sgd<'t>(momentum: f64) -> Result<Optimizer<'t>> {
    Optimizer::builder("sgd").set("lr", 1.0).set("momentum", momentum).build()
}

#[test]
fn memory_may_move_swap_and_go_between_steps() -> Result<()> {
    let (mut a, mut b) = (vec![1.0f32; 3], vec![10.0f32; 3]);
    let mut opt = sgd(0.0)?;
    opt.add_scoped(Group(0), Tensor::new(&mut a).name("a"))?;
    opt.add_scoped(Group(0), Tensor::new(&mut b).name("b"))?;
    for i in 0..4 {
        std::mem::swap(&mut a, &mut b); // the memory of one is now that of the other
        let g = vec![1.0f32; 3];
        opt.step_with(&mut [(&mut a, &g), (&mut b, &g)])?;
        if i == 1 {
            (a, b) = (a.clone(), b.clone());
        }
    }
    assert_eq!((a, b), (vec![-3.0; 3], vec![6.0; 3]));
    Ok(())
}

#[test]
fn outside_nothing_touches_tensors() -> Result<()> {
    let (mut a, mut other) = (vec![1.0f32; 3], [0.0f32; 3]);
    let mut opt = sgd(0.0)?;
    let w = opt.add_scoped(Group(0), Tensor::new(&mut a))?;
    drop(a);
    let state = |result: Result<()>| {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::State, "{error}");
        assert!(error.message().contains("with"), "{error}");
    };
    state(opt.step());
    state(opt.prepare());
    state(opt.step_closure(|_| Ok(0.0)).map(drop));
    state(opt.grad_norm(Group::ALL, 2.0).map(drop));
    state(opt.clip_grad_norm(Group::ALL, 1.0, 2.0).map(drop));
    state(opt.zero_grad(ZeroGrad::Fill));
    state(opt.save("x.safetensors", SaveOptions::new()));
    state(opt.load("x.safetensors", LoadOptions::new()));
    state(opt.save_to(&mut Vec::new(), SaveOptions::new()));
    state(opt.export_master(w, &mut [0.0; 3]));
    state(opt.import_master(w, &[0.0; 3]));
    state(opt.reload_master(w));
    state(opt.restore_from_master(w));
    state(opt.data::<f32>(w).map(drop));
    state(opt.data_mut::<f32>(w).map(drop));
    state(opt.bind_data(w, &mut other));
    state(talus::grad_norm(&mut [&mut opt], 2.0, talus::Stream::DEFAULT).map(drop));
    opt.zero_grad(ZeroGrad::Unbind)?;
    opt.set(Group::ALL, "lr", 0.5)
}

#[test]
fn new_parameters_may_lie_where_lent_ones_were() -> Result<()> {
    let mut memory = vec![1.0f32; 64];
    let mut opt = sgd(0.0)?;
    opt.add_scoped(Group(0), Tensor::new(&mut memory))?;
    let g = vec![1.0f32; 64];
    opt.step_with(&mut [(&mut memory, &g)])?;
    // The same addresses, as another parameter; and gradients where the parameter was.
    let (first, second) = memory.split_at_mut(32);
    // SAFETY: used between calls alone.
    let added = unsafe { opt.add_raw(Group(0), Tensor::new(first).grad(second)) }?;
    let mut elsewhere = vec![5.0f32; 64];
    opt.step_with(&mut [(&mut elsewhere, &g)])?;
    assert_eq!((added, elsewhere[0], memory[0], memory[32]), (talus::Param(1), 4.0, 0.0, 0.0));
    Ok(())
}

#[test]
fn with_lends_to_whatever_is_called() -> Result<()> {
    let (mut w, mut g) = ([3.0f32, 4.0], [3.0f32, 4.0]);
    let mut opt = sgd(0.0)?;
    let param = opt.add_scoped(Group(0), Tensor::new(&mut w))?;
    let norm = opt.with([Tensor::new(&mut w).grad_mut(&mut g)], |opt| {
        let norm = opt.clip_grad_norm(Group::ALL, 2.5, 2.0)?;
        assert_eq!(opt.data::<f32>(param)?, [3.0, 4.0]);
        opt.grad_mut::<f32>(param)?[0] *= -1.0;
        opt.step()?;
        opt.zero_grad(ZeroGrad::Fill)?;
        Result::Ok(norm)
    })??;
    assert_eq!((norm, g), (5.0, [0.0; 2]));
    assert!((w[0] - 4.5).abs() < 1e-5 && (w[1] - 2.0).abs() < 1e-5, "{w:?}");
    // No gradient: the parameter is left out.
    let error = opt.with([Tensor::new(&mut w)], |opt| opt.step())?.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::State);
    Ok(())
}

#[test]
fn rows_are_lent_as_well_and_taken_back() -> Result<()> {
    let mut table = vec![1.0f32; 6];
    let mut opt = sgd(0.0)?;
    opt.add_scoped(Group(0), Tensor::new(&mut table).shape(&[3, 2]))?;
    let (rows, values) = (vec![1i64], vec![1.0f32, 2.0]);
    opt.with([Tensor::new(&mut table).rows(&rows, &values)], |opt| opt.step())??;
    assert_eq!(table, [1.0, 1.0, 0.0, -1.0, 1.0, 1.0]);
    opt.with([Tensor::new(&mut table).rows(&rows, &values)], |_| ())?; // no step
    drop((rows, values));
    let error = opt.with([Tensor::new(&mut table)], |opt| opt.step())?.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::State, "{error}");
    Ok(())
}

#[test]
fn what_does_not_fit_is_refused_whole() -> Result<()> {
    let (mut a, mut b, g, wide) = ([1.0f32; 2], [1.0f32; 3], [1.0f32; 2], [1.0f64; 2]);
    let mut opt = sgd(0.0)?;
    opt.add_scoped(Group(0), Tensor::new(&mut a))?;
    opt.add_scoped(Group(0), Tensor::new(&mut b))?;
    let mut refused = |tensors: Vec<Tensor<'_>>, word: &str| {
        let error = opt.with(tensors, |opt| opt.step()).unwrap_err();
        assert!(error.kind() == ErrorKind::Argument && error.message().contains(word), "{error}");
    };
    refused(vec![Tensor::new(&mut a).grad(&g)], "expected 2");
    refused(vec![Tensor::new(&mut b), Tensor::new(&mut a)], "parameter 0");
    refused(vec![Tensor::new(&mut a).grad(&wide), Tensor::new(&mut b)], "F64");
    refused(vec![Tensor::new(&mut a), Tensor::new(&mut b).grad(&g)], "parameter 1");
    refused(vec![Tensor::new(&mut a), Tensor::new(&mut b).rows(&[0i32], &g)], "values");
    assert_eq!(a, [1.0; 2]);
    Ok(())
}

#[test]
fn a_panic_ends_the_loan() -> Result<()> {
    let (mut w, g) = ([1.0f32], [1.0f32]);
    let mut opt = sgd(0.0)?;
    opt.add_scoped(Group(0), Tensor::new(&mut w))?;
    let thrown = catch_unwind(AssertUnwindSafe(|| {
        opt.with([Tensor::new(&mut w).grad(&g)], |_| panic!("in the middle")).map(drop::<()>)
    }));
    assert!(thrown.is_err());
    assert_eq!(opt.step().unwrap_err().kind(), ErrorKind::State);
    opt.step_with(&mut [(&mut w, &g)])?;
    assert_eq!(w, [0.0]);
    Ok(())
}

#[test]
fn loans_do_not_nest_and_an_exchanged_optimizer_has_none() -> Result<()> {
    let (mut w, g, mut v) = ([1.0f32], [1.0f32], [1.0f32]);
    let mut opt = sgd(0.0)?;
    opt.add_scoped(Group(0), Tensor::new(&mut w))?;
    let inner = opt.with([Tensor::new(&mut w).grad(&g)], |opt| {
        opt.with([Tensor::new(&mut v)], |_| ()).unwrap_err().kind()
    })?;
    assert_eq!(inner, ErrorKind::State);
    opt.with([Tensor::new(&mut w).grad(&g)], |opt| *opt = Optimizer::new("adamw").unwrap())?;
    assert_eq!((opt.param_count(), opt.group_algorithm(Group(0))?), (0, "adamw".to_string()));
    Ok(())
}

#[test]
fn state_follows_the_parameter_and_not_its_memory() -> Result<()> {
    let (mut kept, g) = (vec![1.0f32; 5], vec![1.0f32; 5]);
    let mut opt = sgd(0.5)?;
    let mut fixed = vec![1.0f32; 5];
    let mut reference = sgd(0.5)?;
    reference.add(Group(0), Tensor::new(&mut fixed).grad(&g))?;
    opt.add_scoped(Group(0), Tensor::new(&mut kept))?;
    for _ in 0..5 {
        reference.step()?;
        kept = kept.clone();
        opt.step_with(&mut [(&mut kept, &g)])?;
    }
    drop(reference);
    assert_eq!(kept, fixed);
    Ok(())
}
