//! The second lineage's service.

use tonic::{Request, Response, Status, async_trait};

use super::{Calls, caller, status};
use crate::front::task::{self, Count, Wanted};
use crate::proto::tasks as pb;
use crate::proto::tasks::delay_queue_server::DelayQueue;
use linger::error::{Error, Result};

#[async_trait]
impl DelayQueue for Calls {
    async fn add(&self, request: Request<pb::AddReq>) -> Result<Response<pb::AddResp>, Status> {
        let caller = caller(&request).map_err(status::of)?;
        let wanted = wanted(request.into_inner()).map_err(status::of)?;
        let uid = wanted.add(&self.app, &caller).await.map_err(status::of)?;
        Ok(Response::new(pb::AddResp { uid }))
    }

    async fn get(&self, request: Request<pb::RetrieveReq>) -> Result<Response<pb::Task>, Status> {
        let caller = caller(&request).map_err(status::of)?;
        let task = task::look(&self.app, &caller, &request.get_ref().uid).await;
        let task = task.map_err(status::of)?;
        Ok(Response::new(shown(task)))
    }

    async fn remove(&self, request: Request<pb::RemoveReq>) -> Result<Response<()>, Status> {
        let caller = caller(&request).map_err(status::of)?;
        let removed = task::remove(&self.app, &caller, &request.get_ref().uid).await;
        removed.map_err(status::of)?;
        Ok(Response::new(()))
    }
}

fn wanted(request: pb::AddReq) -> Result<Wanted> {
    let callback = request.callback.ok_or_else(|| {
        Error::invalid("callback", "callback is missing; give schema, address and path")
    })?;
    let time = |time: pb::ExecTime| -> Result<(u64, Count)> {
        let seconds = u64::try_from(time.duration).map_err(|_| {
            let given = time.duration;
            Error::invalid("time.duration", format!("duration is {given}; give 0 seconds or more"))
        })?;
        Ok((seconds, if time.relative { Count::FromNow } else { Count::From1970 }))
    };
    Ok(Wanted {
        name: request.name,
        time: request.time.map(time).transpose()?,
        schema: callback.schema,
        address: callback.address,
        path: callback.path,
        args: request.args,
    })
}

fn shown(task: task::Task) -> pb::Task {
    let seconds = |seconds: u64| i64::try_from(seconds).unwrap_or(i64::MAX);
    let times = |times: u32| i32::try_from(times).unwrap_or(i32::MAX);
    pb::Task {
        // Its low half: that service has no room for more.
        id: task.number as u32,
        uid: task.uid,
        name: task.name,
        r#type: task.kind.into(),
        times: times(task.times),
        retry_times: times(task.retry_times),
        exec_time: seconds(task.exec_time),
        next_exec_time: seconds(task.next_exec_time),
        schema: task.schema,
        address: task.address,
        path: task.path,
        created_at: seconds(task.created_at),
        updated_at: seconds(task.updated_at),
    }
}
