//! State tensors: views, memory of the host, step counts.

use talus::{DType, ErrorKind, Group, Optimizer, Param, Result, Tensor};

#[test]
fn state_is_seen_once_it_is_filled() -> Result<()> {
    let (mut w, g) = ([1.0f32, 2.0], [1.0f32, -1.0]);
    let mut opt = Optimizer::new("adamw")?;
    let w = opt.add(Group(0), Tensor::new(&mut w).grad(&g))?;
    let slots: Vec<_> = opt.states()?.into_iter().map(|state| state.slot).collect();
    assert_eq!(slots, ["exp_avg", "exp_avg_sq"]);
    opt.prepare()?;
    let unfilled = opt.state::<f32>(w, "exp_avg").unwrap_err();
    assert!(unfilled.kind() == ErrorKind::State && unfilled.message().contains("exp_avg"));
    assert_eq!(opt.state_mut::<f32>(w, "exp_avg").unwrap_err().kind(), ErrorKind::State);
    opt.step()?;
    assert_eq!(opt.state::<f32>(w, "exp_avg")?, [0.1f32, -0.1]);
    opt.state_mut::<f32>(w, "exp_avg")?[0] = 0.0;
    assert_eq!((opt.state::<f32>(w, "exp_avg")?[0], opt.steps(w)?), (0.0, 1));
    assert_eq!(opt.state::<f64>(w, "exp_avg").unwrap_err().kind(), ErrorKind::Argument);
    let error = opt.state::<f32>(w, "momentum").unwrap_err();
    assert!(error.kind() == ErrorKind::Name && error.message().contains("exp_avg_sq"), "{error}");
    let info = &opt.states()?[1];
    assert_eq!((info.param, info.dtype, info.count, info.bytes()), (w, DType::F32, 2, 8));
    assert!(!info.data.is_null());
    Ok(())
}

#[test]
fn state_of_the_host_is_taken_over() -> Result<()> {
    let (mut a, mut b, g) = ([1.0f32; 3], [1.0f32; 3], [1.0f32, 2.0, 3.0]);
    let mut buffer = [0.5f32; 3];
    let mut opt = Optimizer::builder("sgd").set("lr", 1.0).set("momentum", 0.5).build()?;
    let w = opt.add(Group(0), Tensor::new(&mut a).grad(&g))?;
    let v = opt.add(Group(0), Tensor::new(&mut b).grad(&g))?;
    opt.prepare()?;
    // Memory of the library's that holds nothing is no state.
    assert_eq!(opt.set_steps(v, 1).unwrap_err().kind(), ErrorKind::State);
    opt.bind_state(w, "momentum_buffer", &mut buffer)?;
    assert_eq!(opt.state::<f32>(w, "momentum_buffer")?, [0.5; 3]);
    opt.set_steps(w, 1)?;
    opt.step()?;
    assert_eq!(opt.data::<f32>(w)?, [-0.25, -1.25, -2.25]);
    assert_eq!((opt.steps(w)?, opt.steps(v)?), (2, 1));
    opt.set_steps(v, 7)?; // it has stepped
    opt.set_steps(v, 0)?; // afresh
    opt.step()?;
    assert_eq!(opt.state::<f32>(v, "momentum_buffer")?, g);
    drop(opt);
    assert_eq!(buffer, [1.625, 3.125, 4.625]);
    Ok(())
}

#[test]
fn state_that_does_not_fit_is_refused() -> Result<()> {
    let (mut a, mut short, mut wide) = ([1.0f32; 3], [0.0f32; 2], [0.0f64; 3]);
    let mut opt = Optimizer::builder("sgd").set("momentum", 0.5).build()?;
    let w = opt.add(Group(0), Tensor::new(&mut a))?;
    let error = opt.bind_state(w, "momentum_buffer", &mut short).unwrap_err();
    assert!(error.kind() == ErrorKind::Argument && error.message().contains("12"), "{error}");
    let error = opt.bind_state(w, "momentum_buffer", &mut wide).unwrap_err();
    assert!(error.kind() == ErrorKind::Argument && error.message().contains("F64"), "{error}");
    assert_eq!(opt.state::<f32>(Param(4), "momentum_buffer").unwrap_err().kind(), ErrorKind::Name);
    assert_eq!(opt.steps(Param(4)).unwrap_err().kind(), ErrorKind::Argument);
    assert_eq!(opt.set_steps(w, -1).unwrap_err().kind(), ErrorKind::Range);
    Ok(())
}
