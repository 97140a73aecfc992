//! Linger's beanstalkd port, beanstalkd, and Redis with scripts: one client that writes bytes.

use std::ops::Range;
use std::time::Duration;

use super::works::{self, Due};
use crate::Result;
use crate::beanstalk::client::{self, Client, Taken, Target};
use crate::work::now_ms;

/// A connection that speaks beanstalkd's protocol.
pub(super) struct Beanstalk(Client);

/// A connection to Redis that calls the scripts.
pub(super) struct Lua(Client);

/// Scripts do not wait: one who got nothing asks again after this time.
const POLL: Duration = Duration::from_millis(1);
/// Where everything is.
const TUBE: &str = "orders";
/// Longer than anything takes here, in seconds.
const HOLD_S: u32 = 1000;

impl works::Client for Beanstalk {
    type Server = Target;
    type Taken = Taken;
    const WHOLE_SECONDS: bool = true;

    async fn open(server: &Target) -> Result<Beanstalk> {
        Ok(Beanstalk(Client::open(*server, TUBE).await))
    }

    async fn add(&mut self, numbers: Range<u64>, due: Due) -> Vec<u64> {
        self.0.put_named(numbers, |n| delay(n, due)).await
    }

    async fn take(&mut self) -> Option<(u64, Taken)> {
        let taken = self.0.take(1).await?;
        Some((taken.at_ns, taken))
    }

    async fn finish(&mut self, taken: Taken) {
        self.0.finish(taken).await;
    }

    async fn cancel(&mut self, name: u64) {
        self.0.delete(name).await;
    }

    async fn hold(&mut self, held: bool) {
        self.0.pause(TUBE, if held { HOLD_S } else { 0 }).await;
    }
}

impl works::Client for Lua {
    type Server = Target;
    type Taken = Taken;

    async fn open(server: &Target) -> Result<Lua> {
        Ok(Lua(Client::open(*server, TUBE).await))
    }

    async fn add(&mut self, numbers: Range<u64>, due: Due) -> Vec<u64> {
        self.0.put_named(numbers, |n| delay(n, due)).await
    }

    async fn take(&mut self) -> Option<(u64, Taken)> {
        let Some(taken) = self.0.take(0).await else {
            tokio::time::sleep(POLL).await;
            return None;
        };
        Some((taken.at_ns, taken))
    }

    async fn finish(&mut self, taken: Taken) {
        self.0.finish(taken).await;
    }

    async fn cancel(&mut self, name: u64) {
        self.0.delete(name).await;
    }
}

fn delay(number: u64, due: Due) -> client::Due {
    match due {
        Due::Now => client::Due::Now,
        Due::InADay | Due::From { .. } => {
            client::Due::InMs(due.at_ms(number).saturating_sub(now_ms()))
        }
    }
}
