//! Loss scale, clipping, masters.

use std::sync::Barrier;
use std::thread;

use talus::{
    clip_grad_norm, grad_norm, Bf16, Device, ErrorKind, Group, Master, Optimizer, Result, Scaler,
    Stream, Tensor,
};

fn sgd<'t>() -> Result<Optimizer<'t>> {
    Optimizer::builder("sgd").set("lr", 1.0).build()
}

#[test]
fn a_scaler_serves_optimizers_of_several_threads() -> Result<()> {
    let scaler = Scaler::new(&[("init_scale", 4.0), ("growth_interval", 1.0)])?;
    let mut weights = [[8.0f32; 2]; 3];
    let gradient = [4.0f32; 2];
    for round in 1..=3 {
        thread::scope(|scope| {
            for w in &mut weights {
                let (scaler, gradient) = (&scaler, &gradient);
                scope.spawn(move || -> Result<()> {
                    let mut opt = sgd()?;
                    opt.add(Group(0), Tensor::new(w).grad(gradient))?;
                    opt.attach_scaler(Some(scaler))?;
                    opt.step()
                });
            }
        });
        scaler.update()?;
        assert_eq!(scaler.scale()?, f64::from(4 << round));
    }
    assert_eq!(weights, [[6.25; 2]; 3]); // 8 - 4/4 - 4/8 - 4/16
    Ok(())
}

#[test]
fn calls_of_a_scaler_wait_for_a_step_of_another_thread() -> Result<()> {
    let (mut w, g) = ([1.0f32], [1.0f32]);
    let scaler = Scaler::new(&[("init_scale", 1.0)])?;
    let mut opt = sgd()?;
    opt.add(Group(0), Tensor::new(&mut w).grad(&g))?;
    opt.attach_scaler(Some(&scaler))?;
    let (entered, leave) = (Barrier::new(2), Barrier::new(2));
    thread::scope(|scope| {
        let step = scope.spawn(|| {
            opt.step_closure(|_| {
                entered.wait();
                leave.wait();
                Ok(0.0)
            })
        });
        entered.wait();
        let update = scope.spawn(|| scaler.update()); // TALUS_E_STATE if the step has not ended
        thread::yield_now();
        leave.wait();
        assert!(step.join().unwrap().is_ok());
        assert_eq!(update.join().unwrap(), Ok(()));
    });
    Ok(())
}

#[test]
fn a_step_of_this_thread_has_the_scaler() -> Result<()> {
    let (mut w, g) = ([1.0f32], [1.0f32]);
    let scaler = Scaler::new(&[("init_scale", 2.0)])?;
    let mut opt = sgd()?;
    opt.add(Group(0), Tensor::new(&mut w).grad(&g))?;
    opt.attach_scaler(Some(&scaler))?;
    let error = opt.step_closure(|_| scaler.scale()).unwrap_err();
    assert!(error.kind() == ErrorKind::State && error.message().contains("scaler"), "{error}");
    assert_eq!(scaler.scale()?, 2.0);
    let other = scaler.clone();
    opt.attach_scaler(Some(&other))?;
    opt.attach_scaler(None)?;
    assert_eq!(scaler.update().unwrap_err().kind(), ErrorKind::State); // none has stepped
    opt.attach_scaler(Some(&Scaler::new(&[])?))?; // another
    Ok(())
}

#[test]
fn parameters_of_a_scaler_have_names() -> Result<()> {
    let scaler = Scaler::on_device(Device::Cpu, &[("growth_factor", 3.0)])?;
    assert_eq!((scaler.get("growth_factor")?, scaler.get("total_skips")?), (3.0, 0.0));
    scaler.set("scale", 16.0)?;
    assert_eq!((scaler.scale()?, scaler.get("init_scale")?), (16.0, 65536.0));
    let error = Scaler::new(&[("no_such", 1.0)]).unwrap_err();
    assert!(error.kind() == ErrorKind::Name && error.message().contains("growth_factor"));
    assert_eq!(scaler.set("scale", f64::NAN).unwrap_err().kind(), ErrorKind::Range);
    Ok(())
}

#[test]
fn a_step_that_is_skipped_says_whose_gradient_it_was() -> Result<()> {
    let (mut a, mut b, fine, bad) = ([1.0f32], [1.0f32], [1.0f32], [f32::NAN]);
    let mut opt = sgd()?;
    opt.set_setting("check_finite", 1.0)?;
    opt.add(Group(0), Tensor::new(&mut a).grad(&fine))?;
    let b = opt.add(Group(0), Tensor::new(&mut b).grad(&bad))?;
    opt.step()?;
    let stats = opt.stats(true)?;
    assert_eq!((stats.found_inf, stats.steps, stats.skipped), (true, 0, 1));
    assert_eq!((stats.nonfinite_param, stats.loss_scale), (Some(b), 1.0));
    opt.bind_grad(b, &fine)?;
    opt.step()?;
    let stats = opt.stats(true)?;
    assert_eq!((stats.found_inf, stats.steps, stats.nonfinite_param), (false, 1, None));
    Ok(())
}

#[test]
fn several_optimizers_are_clipped_as_one() -> Result<()> {
    let (mut a, mut b, ga, gb) = ([0.0f32], [0.0f32], [3.0f32], [4.0f32]);
    let (mut one, mut two) = (sgd()?, sgd()?);
    one.add(Group(0), Tensor::new(&mut a).grad(&ga))?;
    two.add(Group(0), Tensor::new(&mut b).grad(&gb))?;
    let stream = Stream::DEFAULT;
    assert_eq!(grad_norm(&mut [&mut one, &mut two], 1.0, stream)?, 7.0);
    assert_eq!(clip_grad_norm(&mut [&mut one, &mut two], 2.5, 2.0, stream)?, 5.0);
    assert_eq!((one.grad_norm(Group(0), 2.0)?, one.stats(true)?.clip_factor), (3.0, 1.0));
    one.step()?;
    two.step()?;
    assert_eq!(grad_norm(&mut [], 2.0, stream).unwrap_err().kind(), ErrorKind::Argument);
    drop((one, two));
    assert!((a[0] + 1.5).abs() < 1e-5 && (b[0] + 2.0).abs() < 1e-5, "{a:?} {b:?}");
    Ok(())
}

#[test]
fn masters_are_copied_and_set() -> Result<()> {
    let one = Bf16(0x3f80);
    let (mut w, g, mut plain) = ([one; 2], [0.001f32; 2], [0.0f32; 2]);
    let mut opt = sgd()?;
    let v = opt.add(Group(0), Tensor::new(&mut plain))?;
    let w = opt.add(Group(0), Tensor::new(&mut w).grad(&g))?;
    let mut master = [0.0f32; 2];
    assert_eq!(opt.export_master(w, &mut master).unwrap_err().kind(), ErrorKind::State);
    opt.step()?;
    opt.export_master(w, &mut master)?;
    assert_eq!((master, opt.data::<Bf16>(w)?), ([0.999; 2], &[one; 2][..]));
    opt.import_master(w, &[2.0, 1.0])?;
    assert_eq!(opt.data::<Bf16>(w)?, [Bf16(0x4000), one]);
    opt.data_mut::<Bf16>(w)?[0] = one;
    opt.reload_master(w)?;
    opt.export_master(w, &mut master)?;
    assert_eq!(master, [1.0; 2]);
    opt.data_mut::<Bf16>(w)?[0] = Bf16(0);
    opt.restore_from_master(w)?;
    assert_eq!(opt.data::<Bf16>(w)?, [one; 2]);
    assert_eq!(opt.export_master(v, &mut master).unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(opt.export_master(w, &mut [0.0; 3]).unwrap_err().kind(), ErrorKind::Argument);
    assert_eq!(opt.import_master(w, &[]).unwrap_err().kind(), ErrorKind::Argument);
    Ok(())
}

#[test]
fn bytes_of_an_element_are_told_before_there_is_one() -> Result<()> {
    let opt = Optimizer::new("adamw")?;
    let mut none: [Bf16; 0] = [];
    let bytes = opt.bytes_per_element(Group(0), &Tensor::new(&mut none))?;
    assert_eq!((bytes.param, bytes.grad, bytes.master, bytes.state), (2.0, 2.0, 4.0, 8.0));
    assert_eq!((bytes.read, bytes.written), (14.0, 14.0));
    let bare = Tensor::new(&mut none).master(Master::None);
    assert_eq!(opt.bytes_per_element(Group(0), &bare)?.master, 0.0);
    assert!(opt.bytes_per_element(Group(3), &bare).is_err());
    Ok(())
}

#[test]
fn somebody_elses_scale_is_read_at_each_step() -> Result<()> {
    let (mut w, g) = ([1.0f32], [1.0f32]);
    let mut scale = [2.0f32, 0.0];
    let mut opt = sgd()?;
    let w = opt.add(Group(0), Tensor::new(&mut w).grad(&g))?;
    let pointer = scale.as_mut_ptr();
    // SAFETY: it outlives the optimizer, and changes between steps.
    unsafe {
        opt.bind_scale(pointer, pointer.add(1))?;
        opt.step()?;
        *pointer.add(1) = 1.0; // found
    }
    opt.step()?;
    assert_eq!((opt.data::<f32>(w)?, opt.stats(true)?.skipped), (&[0.5f32][..], 1));
    opt.unbind_scale()?;
    opt.step()?;
    assert_eq!(opt.data::<f32>(w)?, [-0.5]);
    Ok(())
}
