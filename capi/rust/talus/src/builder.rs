//! An optimizer with hyperparameters, settings and a device.

use crate::{Device, Group, Optimizer, Result};

/// Collects what an optimizer is to be made with. Names are the library's: one that the algorithm does
/// not have is refused by [`build`](Self::build), with those that it has.
///
/// ```
/// use talus::{ErrorKind, Optimizer};
/// let error = Optimizer::builder("sgd").set("learning_rate", 0.1).build().unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Name);
/// assert!(error.message().contains("momentum"));
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    algorithm: String,
    device: Device,
    values: Vec<(String, f64)>,
    settings: Vec<(String, f64)>,
}

impl Builder {
    pub(crate) fn new(algorithm: &str) -> Self {
        let algorithm = algorithm.to_string();
        Self { algorithm, device: Device::Cpu, values: Vec::new(), settings: Vec::new() }
    }

    /// Sets a hyperparameter of every group.
    pub fn set(mut self, name: &str, value: f64) -> Self {
        self.values.push((name.to_string(), value));
        self
    }

    /// Sets a setting, see `hypers("settings")`.
    pub fn setting(mut self, name: &str, value: f64) -> Self {
        self.settings.push((name.to_string(), value));
        self
    }

    /// Chooses the device; without, the CPU.
    pub fn device(mut self, device: Device) -> Self {
        self.device = device;
        self
    }

    /// Makes the optimizer.
    pub fn build<'t>(self) -> Result<Optimizer<'t>> {
        let mut made = Optimizer::create(&self.algorithm, self.device)?;
        for (name, value) in &self.values {
            made.set(Group::ALL, name, *value)?;
        }
        for (name, value) in &self.settings {
            made.set_setting(name, *value)?;
        }
        Ok(made)
    }
}
