# A story told by beaneater, which others wrote. Usage: beaneater.rb HOST PORT
require "beaneater"

def same(wanted, got)
  raise "wanted #{wanted.inspect}, got #{got.inspect}" unless wanted == got
end

def fails(error)
  yield
rescue error
  nil
else
  raise "no #{error}"
end

client = Beaneater.new("#{ARGV[0]}:#{ARGV[1]}")
tube = client.tubes["eater"]
client.tubes.watch!("eater")
same ["eater"], client.tubes.watched.map(&:name)
client.tubes.watch("other")
client.tubes.ignore("other")
fails(Beaneater::NotIgnoredError) { client.tubes.ignore("eater") }

put = tube.put("hello", pri: 7, delay: 0, ttr: 30)
later = tube.put("later", delay: 100)
job = client.tubes.reserve
same [put[:id], "hello", 7, 30, "eater"], [job.id, job.body, job.pri, job.ttr, job.tube]
job.touch
job.release(pri: 3, delay: 0)
stats = client.jobs.find(job.id).stats
same ["ready", 3, 1], [stats.state, stats.pri, stats.releases]
same job.id, tube.peek(:ready).id
job = tube.reserve(5)
job.bury(pri: 9)
same job.id, tube.peek(:buried).id
tube.kick(10)
same nil, tube.peek(:buried)
job = tube.reserve
job.delete
same false, job.exists?
same nil, client.jobs.find(job.id)
fails(Beaneater::NotFoundError) { job.delete }
fails(Beaneater::TimedOutError) { tube.reserve(0) }

same later[:id], tube.peek(:delayed).id
client.jobs.find(later[:id]).kick
tube.pause(100)
same 100, tube.stats.pause
fails(Beaneater::TimedOutError) { tube.reserve(0) }
tube.pause(0)
job = tube.reserve(5)
same "later", job.body
job.delete

fails(Beaneater::JobTooBigError) { tube.put("x" * 65_536) }
same 65_535, client.stats.max_job_size
same true, client.tubes.all.map(&:name).include?("eater")

# A worker of its own kind: what it raises is released, what it ends is deleted.
tube.put("once more")
tries = 0
client.jobs.register("eater", retry_on: [ArgumentError], max_retries: 2) do
  tries += 1
  raise ArgumentError if tries < 3
  raise Beaneater::AbortProcessingError
end
client.jobs.process!(release_delay: 0)
same 3, tries
tube.clear
client.close
puts "all well"
