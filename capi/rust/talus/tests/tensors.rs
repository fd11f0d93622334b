//! Parameters and gradients: what is borrowed, lent, checked.

use std::ptr;

use talus::{
    Bf16, DType, ErrorKind, Group, Master, Optimizer, Param, Result, Tensor, ZeroGrad, F16,
};

fn sgd<'t>(lr: f64) -> Result<Optimizer<'t>> {
    Optimizer::builder("sgd").set("lr", lr).build()
}

#[test]
fn tensors_are_lent_back_between_steps() -> Result<()> {
    let (mut a, mut ga, mut b, mut gb) = ([1.0f32; 2], [1.0f32; 2], [2.0f32; 3], [0.0f32; 3]);
    let mut opt = sgd(0.5)?;
    let params = opt.add_all(
        Group(0),
        [Tensor::new(&mut a).grad_mut(&mut ga), Tensor::new(&mut b).grad_mut(&mut gb)],
    )?;
    for (data, gradient) in opt.tensors_mut::<f32>(&params)? {
        gradient.copy_from_slice(data);
    }
    opt.step()?;
    assert_eq!(
        (opt.data::<f32>(params[0])?, opt.data(params[1])?),
        (&[0.5f32; 2][..], &[1.0f32; 3][..])
    );
    opt.data_mut::<f32>(params[0])?[1] = 8.0;
    opt.grad_mut::<f32>(params[0])?.fill(2.0);
    assert_eq!(opt.grad::<f32>(params[0])?, [2.0; 2]);
    opt.zero_grad(ZeroGrad::Fill)?;
    assert_eq!(opt.grad::<f32>(params[0])?, [0.0; 2]);
    opt.step()?;
    drop(opt);
    assert_eq!((a, b), ([0.5, 8.0], [1.0; 3]));
    Ok(())
}

#[test]
fn what_cannot_be_lent_is_refused() -> Result<()> {
    let (mut a, g, mut raw) = ([1.0f32; 2], [1.0f32; 2], [1.0f32; 2]);
    let mut opt = sgd(0.5)?;
    let w = opt.add(Group(0), Tensor::new(&mut a).grad(&g))?;
    // SAFETY: it outlives the optimizer's last step.
    let r =
        opt.add(Group(0), unsafe { Tensor::from_raw(raw.as_mut_ptr().cast(), DType::F32, &[2]) })?;
    let kind = |result: Result<&mut [f32]>| result.map(drop).unwrap_err().kind();
    assert_eq!(opt.data::<f64>(w).unwrap_err().kind(), ErrorKind::Argument);
    assert_eq!(kind(opt.grad_mut(w)), ErrorKind::State); // given to be read
    assert_eq!(kind(opt.data_mut(r)), ErrorKind::State); // raw
    assert_eq!(kind(opt.grad_mut(r)), ErrorKind::State); // none
    assert_eq!(kind(opt.data_mut(Param(2))), ErrorKind::Argument);
    assert_eq!(kind(opt.data_mut(Param(-1))), ErrorKind::Argument);
    let twice = opt.tensors_mut::<f32>(&[w, r, w]).unwrap_err();
    assert!(twice.message().contains("twice"), "{twice}");
    let error = opt.zero_grad(ZeroGrad::Fill).unwrap_err();
    assert!(error.kind() == ErrorKind::State && error.message().contains('0'), "{error}");
    opt.zero_grad(ZeroGrad::Unbind)?;
    assert_eq!(opt.grad::<f32>(w).unwrap_err().kind(), ErrorKind::State);
    drop(opt);
    assert_eq!((a, g, raw), ([1.0; 2], [1.0; 2], [1.0; 2]));
    Ok(())
}

#[test]
fn sizes_and_types_are_checked_before_the_library_sees_a_pointer() -> Result<()> {
    let (mut a, short, wide) = ([1.0f32; 4], [1.0f32; 3], [1.0f64; 4]);
    let mut other = [1.0f32; 3];
    let mut opt = sgd(0.5)?;
    let mut refused = |tensor: Tensor<'_>, kind: ErrorKind, word: &str| {
        let error = opt.add_scoped(Group(0), tensor).unwrap_err();
        assert!(error.kind() == kind && error.message().contains(word), "{error}");
    };
    refused(Tensor::new(&mut a).grad(&short).name("w"), ErrorKind::Argument, "\"w\"");
    refused(Tensor::new(&mut a).shape(&[2, 3]), ErrorKind::Argument, "[2, 3]");
    refused(Tensor::new(&mut a).shape(&[-4]), ErrorKind::Argument, "-4");
    refused(Tensor::new(&mut a).shape(&[i64::MAX, 3]), ErrorKind::Argument, "shape");
    refused(Tensor::new(&mut a).grad(&wide), ErrorKind::Unsupported, "f64");
    refused(Tensor::new(&mut a).name(""), ErrorKind::Argument, "empty");
    refused(Tensor::new(&mut a).name("a\0b"), ErrorKind::Argument, "NUL");
    refused(Tensor::new(&mut a).rows(&[0i32], &[1.0f32]), ErrorKind::Argument, "rows");
    assert_eq!(opt.param_count(), 0);

    let w = opt.add(Group(0), Tensor::new(&mut a))?;
    assert_eq!(opt.bind_grad(w, &short).unwrap_err().kind(), ErrorKind::Argument);
    assert_eq!(opt.bind_grad(w, &wide).unwrap_err().kind(), ErrorKind::Argument);
    assert_eq!(opt.bind_grad(Param(1), &short).unwrap_err().kind(), ErrorKind::Argument);
    assert_eq!(opt.bind_data(w, &mut other).unwrap_err().kind(), ErrorKind::Argument);
    Ok(())
}

#[test]
fn params_are_described_found_moved_and_removed() -> Result<()> {
    let (mut a, mut b, mut c) = ([Bf16(0x3f80); 6], [1.0f64], [F16(0); 2]);
    let mut opt = Optimizer::new("adamw")?;
    let other = opt.add_group(None, &[("weight_decay", 0.0)])?;
    let tensor = Tensor::new(&mut a).shape(&[2, 3]).name("a").grad_dtype(DType::F32);
    let a = opt.add(Group(0), tensor)?;
    let b = opt.add(Group(0), Tensor::new(&mut b).shape(&[]).state_dtype(DType::F64))?;
    let c = opt.add(other, Tensor::new(&mut c).master(Master::None))?;
    let info = opt.param(a)?;
    assert_eq!((info.name.as_str(), &info.shape[..], info.has_master), ("a", &[2, 3][..], true));
    let dtypes = (info.dtype, info.grad_dtype, info.state_dtype);
    assert_eq!(dtypes, (DType::Bf16, DType::F32, DType::F32));
    assert_eq!((opt.param(b)?.name, opt.param(b)?.shape), ("param.1".to_string(), vec![]));
    assert!(!opt.param(c)?.has_master);
    assert_eq!((opt.find("a"), opt.find("no"), opt.find("a\0")), (Some(a), None, None));
    opt.move_params(&[a, b], other)?;
    assert_eq!((opt.param_group(b)?, opt.param_group(c)?), (other, other));
    opt.remove(&[a])?;
    assert!(opt.data::<Bf16>(a).is_err() && opt.param(a).is_err() && opt.param_group(a).is_err());
    assert_eq!((opt.param_count(), opt.find("a")), (3, None));
    assert_eq!(opt.remove(&[b, Param(9)]).unwrap_err().kind(), ErrorKind::Argument);
    assert!(opt.data::<f64>(b).is_ok());
    Ok(())
}

#[test]
fn gradients_and_data_are_bound_anew() -> Result<()> {
    let (mut a, mut b, mut moved) = ([1.0f32; 2], [1.0f32; 2], [5.0f32; 2]);
    let (one, two, mut own) = ([1.0f32; 2], [2.0f32; 2], [4.0f32; 2]);
    let mut opt = sgd(1.0)?;
    let w = opt.add(Group(0), Tensor::new(&mut a))?;
    let v = opt.add(Group(0), Tensor::new(&mut b))?;
    assert_eq!(opt.step().unwrap_err().kind(), ErrorKind::State); // nothing is bound
    opt.bind_grads(w, [Some(&one[..]), None])?;
    opt.step()?;
    assert_eq!((opt.data::<f32>(w)?, opt.data::<f32>(v)?), (&[0.0f32; 2][..], &[1.0f32; 2][..]));
    opt.bind_grads(w, [None, Some(&two[..])])?;
    opt.step()?;
    assert_eq!((opt.data::<f32>(w)?, opt.data::<f32>(v)?), (&[0.0f32; 2][..], &[-1.0f32; 2][..]));
    opt.unbind_grad(v)?;
    opt.bind_grad_mut(w, &mut own)?;
    opt.grad_mut::<f32>(w)?[0] = 3.0;
    opt.bind_data(w, &mut moved)?;
    opt.step()?;
    assert_eq!(opt.data::<f32>(w)?, [2.0, 1.0]);
    assert_eq!(opt.bind_grads(v, [None, Some(&one[..])]).unwrap_err().kind(), ErrorKind::Argument);
    drop(opt);
    assert_eq!((a, moved, own), ([0.0; 2], [2.0, 1.0], [3.0, 4.0]));
    Ok(())
}

#[test]
fn raw_memory_is_the_callers_affair() -> Result<()> {
    let (mut a, mut g, mut elsewhere) = (vec![1.0f32; 3], vec![1.0f32; 3], vec![9.0f32; 3]);
    let mut opt = sgd(1.0)?;
    // SAFETY: they outlive the optimizer's last step.
    unsafe {
        let w = opt.add_raw(Group(0), Tensor::new(&mut a).grad(&g))?;
        opt.step()?;
        assert_eq!(a, [0.0; 3]);
        g.fill(2.0);
        opt.bind_grads_raw(w, &[g.as_mut_ptr().cast()])?;
        opt.bind_data_raw(w, elsewhere.as_mut_ptr().cast())?;
        opt.step()?;
        assert_eq!(elsewhere, [7.0; 3]);
        opt.bind_grads_raw(w, &[ptr::null_mut()])?;
        assert!(opt.step().is_err());
        assert_eq!(opt.bind_data_raw(w, ptr::null_mut()).unwrap_err().kind(), ErrorKind::Argument);
    }
    Ok(())
}

#[test]
fn rows_stand_in_for_one_step() -> Result<()> {
    let mut table = [1.0f32; 6];
    let (indices, values, bad) = ([2i32, 0, 2], [1.0f32, 2.0, 3.0, 4.0, 10.0, 20.0], [3i64]);
    let mut opt = sgd(1.0)?;
    let w = opt.add(Group(0), Tensor::new(&mut table).shape(&[3, 2]))?;
    opt.bind_rows(w, &indices, &values)?;
    opt.step()?;
    assert_eq!(opt.data::<f32>(w)?, [-2.0, -3.0, 1.0, 1.0, -10.0, -21.0]);
    assert_eq!(opt.step().unwrap_err().kind(), ErrorKind::State); // used up
    let error = opt.bind_rows(w, &bad, &values[..2]).unwrap_err();
    assert!(error.kind() == ErrorKind::Argument && error.message().contains("row 3"), "{error}");
    let error = opt.bind_rows(w, &indices, &values[..5]).unwrap_err();
    assert!(error.message().contains('5') && error.message().contains('6'), "{error}");
    opt.bind_rows(w, &indices, &values)?;
    opt.unbind_rows(w)?;
    assert_eq!(opt.step().unwrap_err().kind(), ErrorKind::State);
    Ok(())
}

#[test]
fn an_empty_tensor_is_a_parameter_as_well() -> Result<()> {
    let (mut none, mut a, g) = ([0.0f32; 0], [1.0f32], [1.0f32]);
    let mut opt = sgd(1.0)?;
    let empty = opt.add(Group(0), Tensor::new(&mut none).shape(&[0, 4]))?;
    let w = opt.add(Group(0), Tensor::new(&mut a).grad(&g))?;
    opt.step()?;
    assert_eq!((opt.data::<f32>(empty)?, opt.data::<f32>(w)?), (&[][..], &[0.0f32][..]));
    Ok(())
}
