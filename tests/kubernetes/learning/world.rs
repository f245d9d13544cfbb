//! The world of the recorded boots, drawn from a seed: how long each part takes and from which distribution.

use std::time::Duration;

use sha2::{Digest as _, Sha256};

/// One boot: what is different from the others.
#[derive(Debug, Clone)]
pub(super) struct World {
    pub(super) number: u32,
}

/// What takes a time.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part {
    /// From the Job's pod to the first object of widgets: log-normal, as downloads are.
    Widgets,
    /// From those to the end of Helm's work.
    WidgetsDone,
    /// gadgets: two cases, the image is there or it is pulled.
    Gadgets,
    /// The operator: exponential, as waiting for a lease is.
    Springs,
}

impl World {
    /// The boot of this number.
    pub(super) fn new(number: u32) -> Self {
        Self { number }
    }

    /// How long a part takes in this boot.
    pub(super) fn takes(&self, part: Part) -> Duration {
        let seconds = match part {
            Part::Widgets => 1.5 * (0.4 * self.normal(0)).exp(),
            Part::WidgetsDone => 0.5 + self.uniform(4),
            Part::Gadgets if self.uniform(2) < 0.7 => 1.0 + self.uniform(3),
            Part::Gadgets => 5.0 + 2.0 * self.uniform(3),
            Part::Springs => 0.5 - 1.5 * (1.0 - self.uniform(5)).ln(),
        };
        Duration::from_secs_f64(seconds)
    }

    /// A number from 0 to 1, the same for the same boot and stream.
    fn uniform(&self, stream: u8) -> f64 {
        let digest = Sha256::digest([&self.number.to_be_bytes()[..], &[stream]].concat());
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&digest[..4]);
        f64::from(u32::from_be_bytes(bytes)) / f64::from(u32::MAX)
    }

    /// A standard normal number (Box and Muller's), from two streams.
    fn normal(&self, stream: u8) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform(stream) * 0.999_999).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform(stream + 100)).cos()
    }
}
