//! The calls of the script, each over this crate.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::ptr;

use talus::{
    check, names, sys, Clock, DType, Group, LoadOptions, Optimizer, Param, SaveOptions, Scaler,
    Schedule, Tensor, ZeroGrad,
};

use crate::words::*;

/// What the script has made so far, by name.
pub struct Run {
    pub folder: PathBuf,
    optimizers: BTreeMap<String, Optimizer<'static>>,
    schedules: BTreeMap<String, Recorded>,
    scalers: BTreeMap<String, Scaler>,
    arrays: BTreeMap<String, Array>,
    /// Indices of rows, which are read at the step.
    rows: Vec<Box<[i64]>>,
}

/// Optimizers and other schedules take schedules for themselves: they get one that was made by the
/// same calls.
struct Recorded {
    schedule: Schedule,
    calls: Vec<Vec<String>>,
}

fn find<'r, T>(things: &'r mut BTreeMap<String, T>, name: &str) -> Answer<&'r mut T> {
    things.get_mut(name).ok_or_else(|| Fault::Wrong(format!("there is no {name} of this kind")))
}

fn add<T>(things: &mut BTreeMap<String, T>, name: &str, thing: T) -> Answer<String> {
    match things.insert(name.to_string(), thing) {
        None => nothing(),
        Some(_) => wrong(format!("{name} is there already")),
    }
}

fn nothing() -> Answer<String> {
    Ok(String::new())
}

fn param(word: &str) -> Answer<Param> {
    Ok(Param(int(word)?))
}

fn group(word: &str) -> Answer<Group> {
    Ok(Group(int(word)? as i32))
}

impl Run {
    pub fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            optimizers: BTreeMap::new(),
            schedules: BTreeMap::new(),
            scalers: BTreeMap::new(),
            arrays: BTreeMap::new(),
            rows: Vec::new(),
        }
    }

    fn opt(&mut self, name: &str) -> Answer<&mut Optimizer<'static>> {
        find(&mut self.optimizers, name)
    }

    fn array(&mut self, name: &str) -> Answer<&mut Array> {
        find(&mut self.arrays, name)
    }

    fn scaler(&mut self, name: &str) -> Answer<&mut Scaler> {
        find(&mut self.scalers, name)
    }

    /// Makes a call, and says what it answers.
    pub fn call(&mut self, w: &[&str]) -> Answer<String> {
        match w {
            ["optimizer", o, rule] => {
                let made = Optimizer::new(rule)?;
                add(&mut self.optimizers, o, made)
            }
            ["group", o, rule] => self.opt(o)?.add_group(Some(rule), &[]).and(nothing_of())?,
            ["set", o, g, name, v] => done(self.opt(o)?.set(group(g)?, name, double(v)?)),
            ["get", o, g, name] => Ok(bits(self.opt(o)?.get(group(g)?, name)?)),
            ["setting", o, name, v] => done(self.opt(o)?.set_setting(name, double(v)?)),
            ["get_setting", o, name] => Ok(bits(self.opt(o)?.setting(name)?)),
            ["count", list] => Ok(names(list)?.len().to_string()),
            ["array", a, dtype, words @ ..] => {
                let made = Array::new(dtype, words)?;
                add(&mut self.arrays, a, made)
            }
            ["fill", a, words @ ..] => self.array(a)?.fill(words).and(nothing()),
            ["read", a] => Ok(self.array(a)?.bits()),
            ["same", a, b] => match self.array(a)?.bits() == self.array(b)?.bits() {
                true => nothing(),
                false => wrong(format!("{a} and {b} differ")),
            },
            ["param", words @ ..] => self.param(words),
            ["bind", o, p, grad] => self.bind(o, param(p)?, grad),
            ["rows", o, p, values, rows @ ..] => self.rows(o, param(p)?, values, rows),
            ["set_group", o, g, p] => done(self.opt(o)?.move_params(&[param(p)?], group(g)?)),
            ["remove", o, p] => done(self.opt(o)?.remove(&[param(p)?])),
            ["find", o, name] => {
                Ok(self.opt(o)?.find(name).map_or(-1, |found| found.0).to_string())
            }
            ["zero_grad", o] => done(self.opt(o)?.zero_grad(ZeroGrad::Fill)),
            ["slot", o, p, slot] => self.slot(o, param(p)?, slot),
            ["steps", o, p] => Ok(self.opt(o)?.steps(param(p)?)?.to_string()),
            ["set_steps", o, p, n] => done(self.opt(o)?.set_steps(param(p)?, int(n)?)),
            ["destroy", name] => {
                self.optimizers.remove(*name);
                self.schedules.remove(*name);
                self.scalers.remove(*name);
                nothing()
            }
            _ => self.call_step(w),
        }
    }

    fn call_step(&mut self, w: &[&str]) -> Answer<String> {
        match w {
            ["step", o] => done(self.opt(o)?.step()),
            ["advance", o] => done(self.opt(o)?.on(talus::Stream::DEFAULT).advance()),
            ["step_closure", o, loss] => {
                let loss = double(loss)?;
                Ok(bits(self.opt(o)?.step_closure(|_| Ok(loss))?))
            }
            ["stat", o, field] => self.stat(o, field),
            ["norm", o, g, kind] => Ok(bits(self.opt(o)?.grad_norm(group(g)?, double(kind)?)?)),
            ["clip", o, g, max, kind] => {
                let (max, kind) = (double(max)?, double(kind)?);
                Ok(bits(self.opt(o)?.clip_grad_norm(group(g)?, max, kind)?))
            }
            ["export", o, p, view] => self.export(o, param(p)?, view),
            ["bytes", o, g, words @ ..] => self.bytes(o, group(g)?, words),
            ["scaler", s] => {
                let made = Scaler::new(&[])?;
                add(&mut self.scalers, s, made)
            }
            ["scaler_set", s, name, v] => done(self.scaler(s)?.set(name, double(v)?)),
            ["scale", s] => Ok(bits(self.scaler(s)?.scale()?)),
            ["update", s] => done(self.scaler(s)?.update()),
            ["attach_scaler", o, "-"] => done(self.opt(o)?.attach_scaler(None)),
            ["attach_scaler", o, s] => {
                let scaler = self.scaler(s)?.clone();
                done(self.opt(o)?.attach_scaler(Some(&scaler)))
            }
            ["save", o, file] => {
                let path = self.folder.join(file);
                done(self.opt(o)?.save(path, SaveOptions::new()))
            }
            ["load", o, file] => {
                let path = self.folder.join(file);
                done(self.opt(o)?.load(path, LoadOptions::new()))
            }
            ["truncate", file, bytes] => self.truncate(file, int(bytes)?),
            ["same_file", a, b] => self.same_file(a, b),
            _ => self.call_schedule(w),
        }
    }

    fn call_schedule(&mut self, w: &[&str]) -> Answer<String> {
        match w {
            ["schedule", c, kind] => {
                let schedule = Schedule::new(kind, &[])?;
                let calls = vec![vec!["schedule".to_string(), kind.to_string()]];
                add(&mut self.schedules, c, Recorded { schedule, calls })
            }
            ["schedule_value", c, base, t] => {
                let schedule = &find(&mut self.schedules, c)?.schedule;
                Ok(bits(schedule.value(double(base)?, int(t)?)?))
            }
            ["attach", o, g, hyper, "-"] => done(self.opt(o)?.detach(group(g)?, hyper)),
            ["attach", o, g, hyper, c] => {
                let copy = self.copy_of(c)?;
                done(self.opt(o)?.attach(group(g)?, hyper, copy, Clock::Applied))
            }
            ["value_now", o, g, name] => Ok(bits(self.opt(o)?.value_now(group(g)?, name)?)),
            ["observe", o, metric] => done(self.opt(o)?.observe(double(metric)?)),
            [verb, c, words @ ..] if verb.starts_with("schedule_") => {
                let mut call = vec![*verb];
                call.extend(words);
                self.change(c, &call)
            }
            _ => wrong(format!("unknown call {w:?}")),
        }
    }

    /// Applies a call to a schedule, and keeps it for copies.
    fn change(&mut self, name: &str, call: &[&str]) -> Answer<String> {
        let piece = match call {
            ["schedule_add", piece] => Some(self.copy_of(piece)?),
            _ => None,
        };
        let recorded = find(&mut self.schedules, name)?;
        apply(&mut recorded.schedule, call, piece)?;
        recorded.calls.push(call.iter().map(|word| word.to_string()).collect());
        nothing()
    }

    fn copy_of(&mut self, name: &str) -> Answer<Schedule> {
        let calls = find(&mut self.schedules, name)?.calls.clone();
        let mut copy = Schedule::new(&calls[0][1], &[])?;
        for call in &calls[1..] {
            let call: Vec<_> = call.iter().map(String::as_str).collect();
            let piece = match call[..] {
                ["schedule_add", piece] => Some(self.copy_of(piece)?),
                _ => None,
            };
            apply(&mut copy, &call, piece)?;
        }
        Ok(copy)
    }

    fn param(&mut self, w: &[&str]) -> Answer<String> {
        let (o, g, name, a, grad) = match w {
            [o, g, name, a, grad, _, _, _] => (o, group(g)?, name, a, grad),
            _ => return wrong("param has eight words"),
        };
        let data = self.array(a)?;
        let shape = shape(w[5], data.len())?;
        // SAFETY: arrays outlive the optimizers' last step, and are used between calls alone.
        let mut tensor = unsafe { Tensor::from_raw(data.pointer(), data.dtype(), &shape) };
        if *grad != "-" {
            let grad = self.array(grad)?;
            // SAFETY: as above.
            tensor = unsafe { tensor.grad_raw(grad.pointer(), grad.dtype()) };
        }
        if let Some(dtype) = dtype(w[6])? {
            tensor = tensor.state_dtype(dtype);
        }
        let tensor = tensor.name(name).master(master(w[7])?);
        done(self.opt(o)?.add(g, tensor).map(drop))
    }

    fn bind(&mut self, o: &str, param: Param, grad: &str) -> Answer<String> {
        let pointer = match grad {
            "-" => ptr::null_mut(),
            _ => self.array(grad)?.pointer(),
        };
        // SAFETY: arrays outlive the optimizers' last step; the script binds what fits.
        done(unsafe { self.opt(o)?.bind_grads_raw(param, &[pointer]) })
    }

    fn rows(&mut self, o: &str, param: Param, values: &str, rows: &[&str]) -> Answer<String> {
        let indices = rows.iter().map(|row| int(row)).collect::<Answer<Vec<_>>>()?;
        let raw = sys::talus_rows {
            struct_size: std::mem::size_of::<sys::talus_rows>() as u32,
            index_dtype: sys::TALUS_I64,
            count: indices.len() as i64,
            indices: indices.as_ptr().cast(),
            values: self.array(values)?.pointer(),
            flags: 0,
        };
        self.rows.push(indices.into_boxed_slice()); // its memory stays
                                                    // SAFETY: arrays and indices outlive the optimizers' last step.
        done(unsafe { self.opt(o)?.bind_rows_raw(param, &raw) })
    }

    fn slot(&mut self, o: &str, param: Param, slot: &str) -> Answer<String> {
        let opt = self.opt(o)?;
        let states = opt.states()?;
        let state = states.iter().find(|state| state.param == param && state.slot == slot);
        Ok(match state.map(|state| state.dtype) {
            None => return wrong(format!("no slot {slot}")),
            Some(DType::F16) => Array::F16(opt.state(param, slot)?.to_vec()).bits(),
            Some(DType::Bf16) => Array::Bf16(opt.state(param, slot)?.to_vec()).bits(),
            Some(DType::F32) => bits_of_f32(opt.state(param, slot)?),
            Some(DType::F64) => all_bits(opt.state(param, slot)?),
        })
    }

    fn stat(&mut self, o: &str, field: &str) -> Answer<String> {
        let stats = self.opt(o)?.stats(true)?;
        match field {
            "found_inf" => Ok(i32::from(stats.found_inf).to_string()),
            "steps" => Ok(stats.steps.to_string()),
            "skipped" => Ok(stats.skipped.to_string()),
            "nonfinite_param" => Ok(stats.nonfinite_param.map_or(-1, |param| param.0).to_string()),
            _ => wrong(format!("unknown field {field}")),
        }
    }

    fn export(&mut self, o: &str, param: Param, view: &str) -> Answer<String> {
        let opt = self.opt(o)?;
        if view == "master" {
            let shape = opt.param(param)?.shape;
            let mut copy = vec![0.0f32; shape.iter().product::<i64>() as usize];
            opt.export_master(param, &mut copy)?;
            return Ok(bits_of_f32(&copy));
        }
        let name = std::ffi::CString::new(view).unwrap();
        let (none, dtype) = (ptr::null_mut(), sys::TALUS_F32);
        // SAFETY: a C string, and no memory.
        check(unsafe {
            sys::talus_export_param(opt.as_ptr(), name.as_ptr(), param.0, none, dtype, none)
        })?;
        wrong(format!("no view {view} was expected"))
    }

    fn bytes(&mut self, o: &str, group: Group, w: &[&str]) -> Answer<String> {
        let of = dtype(w[0])?.unwrap_or(DType::F32);
        // SAFETY: no elements.
        let mut tensor = unsafe { Tensor::from_raw(ptr::null_mut(), of, &[0]) };
        if let Some(dtype) = dtype(w[1])? {
            tensor = tensor.grad_dtype(dtype);
        }
        if let Some(dtype) = dtype(w[2])? {
            tensor = tensor.state_dtype(dtype);
        }
        let found = self.opt(o)?.bytes_per_element(group, &tensor.master(master(w[3])?))?;
        let stored = [found.param, found.grad, found.master, found.state];
        Ok([all_bits(&stored), all_bits(&[found.read, found.written])].join(" "))
    }

    fn truncate(&self, file: &str, bytes: i64) -> Answer<String> {
        let path = self.folder.join(file);
        let mut contents = fs::read(&path).map_err(|error| Fault::Wrong(error.to_string()))?;
        contents.truncate(bytes as usize);
        fs::write(path, contents).map_err(|error| Fault::Wrong(error.to_string()))?;
        nothing()
    }

    fn same_file(&self, a: &str, b: &str) -> Answer<String> {
        let [a, b] = [a, b].map(|name| fs::read(self.folder.join(name)).unwrap_or_default());
        match !a.is_empty() && a == b {
            true => nothing(),
            false => wrong("the files differ, or are empty"),
        }
    }
}

fn apply(schedule: &mut Schedule, call: &[&str], piece: Option<Schedule>) -> Answer {
    match (call, piece) {
        (["schedule_set", name, v], _) => schedule.set(name, double(v)?)?,
        (["schedule_list", "milestones", values @ ..], _) => {
            let values = values.iter().map(|value| int(value)).collect::<Answer<Vec<_>>>()?;
            schedule.set_milestones(&values)?;
        }
        (["schedule_function", d], _) => {
            let d = double(d)?;
            schedule.set_function(move |t| d / (d + t as f64))?;
        }
        (["schedule_add", _], Some(piece)) => schedule.add(piece)?,
        _ => return wrong(format!("unknown call {call:?}")),
    }
    Ok(())
}

fn done(result: talus::Result<()>) -> Answer<String> {
    Ok(result.map(|()| String::new())?)
}

fn nothing_of() -> talus::Result<Answer<String>> {
    Ok(nothing())
}

fn bits_of_f32(values: &[f32]) -> String {
    Array::F32(values.iter().map(|value| value.to_bits()).collect()).bits()
}
