package io.linger;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Collectors;

/**
 * Pops jobs and hands them to the handlers of their topics.
 *
 * <p>It asks for as many jobs as it has free hands, touches each when half of its lease is over for as long as its handler
 * works, finishes it when the handler returns, and fails it when the handler throws.
 */
public final class Worker implements AutoCloseable {
    private static final Logger LOG = System.getLogger("io.linger.Worker");
    private static final Duration WAIT = Duration.ofSeconds(30);
    /** Before Java 16 a request cannot be hung up, so {@link #close} has to wait for it. */
    private static final Duration WAIT_OLD_JAVA = Duration.ofSeconds(1);
    private static final Duration LAST_WORD = Duration.ofSeconds(5);
    private static final int POP_MAX = 1000;
    private static final int TOUCHES_AT_ONCE = 16;

    private final Client client;
    private final Map<String, Handler> handlers;
    private final Duration ttr;
    private final Duration grace;
    private final boolean hangsUp;
    private final Semaphore hands;
    private final Set<Run> runs = ConcurrentHashMap.newKeySet();
    private final ExecutorService pool = Executors.newCachedThreadPool(Threads.daemons("linger-worker"));
    private final ScheduledThreadPoolExecutor touches;
    private final Thread popper = new Thread(this::pop, "linger-pop");
    private final AtomicBoolean closing = new AtomicBoolean();
    private final CountDownLatch closed = new CountDownLatch(1);
    private boolean popping;
    private Thread hook;

    private Worker(Builder builder) {
        client = builder.client;
        handlers = Map.copyOf(builder.handlers);
        ttr = builder.ttr;
        grace = builder.grace;
        hangsUp = builder.hangsUp;
        hands = new Semaphore(builder.concurrency);
        touches = new ScheduledThreadPoolExecutor(
                Math.min(builder.concurrency, TOUCHES_AT_ONCE), Threads.daemons("linger-touch"));
        touches.setRemoveOnCancelPolicy(true);
    }

    /** A worker of this client, with no handlers yet. */
    public static Builder builder(Client client) {
        return new Builder(client);
    }

    /** Waits until the worker was closed. */
    public void join() throws InterruptedException {
        closed.await();
    }

    /**
     * Asks for no more jobs, hangs up if it waits for some, lets handlers end for the grace time, and gives back what is
     * left, whose threads are interrupted. Not to be called by a handler.
     */
    @Override
    public void close() {
        if (closing.getAndSet(true)) {
            awaitClosed();
            return;
        }
        boolean interrupted = Thread.interrupted();
        stopPopping();
        try {
            popper.join();
            pool.shutdown();
            pool.awaitTermination(grace.toNanos(), TimeUnit.NANOSECONDS);
        } catch (InterruptedException hurry) {
            interrupted = true;
            pool.shutdown();
        }
        giveBack(runs);
        touches.shutdownNow();
        removeHook();
        closed.countDown();
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private void start(boolean onSignals) {
        if (onSignals) {
            hook = new Thread(this::close, "linger-stop");
            Runtime.getRuntime().addShutdownHook(hook);
        }
        popper.start();
    }

    private synchronized void stopPopping() {
        if (hangsUp || !popping) {
            popper.interrupt();
        }
    }

    private synchronized void popping(boolean now) {
        popping = now;
    }

    private static void giveBack(Collection<Run> left) {
        // All handlers are told before the first call is made, which may take its time.
        List<Run> ours = left.stream().filter(Run::lose).collect(Collectors.toList());
        for (Run run : ours) {
            if (!run.release()) {
                return;
            }
        }
    }

    private void awaitClosed() {
        try {
            closed.await();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private void removeHook() {
        try {
            if (hook != null) {
                Runtime.getRuntime().removeShutdownHook(hook);
            }
        } catch (IllegalStateException alreadyShuttingDown) {
            // The hook is what runs this.
        }
    }

    private void pop() {
        Pauses pauses = new Pauses();
        try {
            while (!closing.get()) {
                int free = takeHands();
                List<Job> jobs = List.of();
                try {
                    jobs = pop(free);
                    pauses.reset();
                } catch (RuntimeException error) {
                    // Whatever it is: without this thread no job would be asked for any more.
                    if (!closing.get()) {
                        LOG.log(Level.WARNING, "cannot pop, and will ask again: {0}", error.toString());
                        Thread.sleep(pauses.next().toMillis());
                    }
                } finally {
                    hands.release(free - jobs.size());
                }
                if (!begin(jobs)) {
                    Thread.sleep(pauses.next().toMillis());
                }
            }
        } catch (InterruptedException closingNow) {
            // Only close() interrupts this thread.
        }
    }

    /** Waits for a free hand, and takes all that are free, as far as one call can fill them. */
    private int takeHands() throws InterruptedException {
        hands.acquire();
        int free = 1 + hands.drainPermits();
        int useful = Math.min(free, POP_MAX);
        hands.release(free - useful);
        return useful;
    }

    private List<Job> pop(int free) {
        popping(true);
        try {
            return closing.get() ? List.of() : client.pop(ask(free));
        } finally {
            popping(false);
        }
    }

    private Pop ask(int free) {
        Pop pop = Pop.from(List.copyOf(handlers.keySet())).max(free).wait(hangsUp ? WAIT : WAIT_OLD_JAVA);
        return ttr == null ? pop : pop.ttr(ttr);
    }

    /** Whether there was a thread for each. */
    private boolean begin(List<Job> jobs) {
        List<Run> fresh = jobs.stream().map(Run::new).collect(Collectors.toList());
        if (closing.get()) {
            // They came while the worker was told to stop.
            Thread.interrupted();
            giveBack(fresh);
            return true;
        }
        runs.addAll(fresh);
        int begun = 0;
        try {
            for (Run run : fresh) {
                pool.execute(run);
                begun++;
            }
            return true;
        } catch (RuntimeException | OutOfMemoryError noThread) {
            LOG.log(Level.WARNING, "cannot begin jobs, and gives them back: {0}", noThread.toString());
            List<Run> left = fresh.subList(begun, fresh.size());
            left.forEach(runs::remove);
            giveBack(left);
            hands.release(left.size());
            return false;
        }
    }

    /** A job in the hands of its handler. */
    private final class Run implements Runnable {
        private final Job job;
        private final Pauses pauses = new Pauses();
        private volatile long leaseEnds;
        private Thread thread;
        private Future<?> nextTouch;
        /** The handler has ended, or its job was taken from it: what it comes to is nobody's business any more. */
        private boolean over;

        Run(Job job) {
            this.job = job;
            leaseEnds = atMost(job.leaseEnds());
            touchIn(untilHalf());
        }

        @Override
        public void run() {
            try {
                if (enter()) {
                    Failure failure = Threads.outcome(handlers.get(job.topic()), job);
                    if (leave()) {
                        settle(failure);
                    }
                }
            } finally {
                runs.remove(this);
                hands.release();
            }
        }

        private synchronized boolean enter() {
            thread = Thread.currentThread();
            return !over;
        }

        /** Whether the job is still ours; from here on nobody interrupts this thread. */
        private synchronized boolean leave() {
            boolean ours = !over;
            end();
            Thread.interrupted();
            return ours;
        }

        private void end() {
            over = true;
            thread = null;
            nextTouch.cancel(false);
        }

        /** Tells the handler that the job is not its own any more; false if it has ended anyway. */
        private synchronized boolean lose() {
            if (over) {
                return false;
            }
            job.lose();
            if (thread != null) {
                thread.interrupt();
            }
            end();
            return true;
        }

        /** Whether the server was there to hear of it. */
        private boolean release() {
            return settle("release", () -> client.release(job), System.nanoTime());
        }

        private void settle(Failure failure) {
            // Of a lease that is almost over at least this much is tried: without a lease the server refuses anyway.
            long until = Math.max(leaseEnds, System.nanoTime() + LAST_WORD.toNanos());
            if (failure == null) {
                settle("finish", () -> client.finish(job), until);
            } else {
                settle("fail", () -> client.fail(job, failure), until);
            }
        }

        private boolean settle(String what, Runnable call, long until) {
            Pauses waits = new Pauses();
            while (true) {
                try {
                    call.run();
                    return true;
                } catch (LingerException error) {
                    if (!isAway(error) || System.nanoTime() - until >= 0 || !sleep(waits.next())) {
                        LOG.log(Level.WARNING, "cannot {0} {1}: {2}", what, job, error.getMessage());
                        return !isAway(error);
                    }
                }
            }
        }

        private synchronized void touchIn(long nanos) {
            if (!over) {
                nextTouch = touches.schedule(this::touch, Math.max(nanos, 1_000_000), TimeUnit.NANOSECONDS);
            }
        }

        private void touch() {
            try {
                leaseEnds = atMost(client.touch(job, ttr).leaseEnds());
                pauses.reset();
                touchIn(untilHalf());
            } catch (LingerException error) {
                long left = leaseEnds - System.nanoTime();
                if (!isLost(error) && left > 0) {
                    touchIn(Math.min(pauses.next().toNanos(), left));
                } else if (lose()) {
                    LOG.log(Level.WARNING, "the lease of {0} is lost: {1}", job, error.getMessage());
                }
            }
        }

        private long untilHalf() {
            return (leaseEnds - System.nanoTime()) / 2;
        }

        /** A lease is no longer than the ttr, if that is known, whatever the clocks say. */
        private long atMost(long ends) {
            Duration length = ttr == null ? job.ttr().orElse(null) : ttr;
            long now = System.nanoTime();
            return length == null ? ends : now + Math.min(ends - now, length.toNanos());
        }
    }

    private static boolean isLost(LingerException error) {
        return error.code() == Code.LEASE_LOST || error.code() == Code.NOT_FOUND || error.code() == Code.WRONG_STATE;
    }

    private static boolean isAway(LingerException error) {
        return error.code() == Code.UNAVAILABLE || error.code() == Code.OVERLOADED || error.code() == Code.RATE_LIMITED;
    }

    private static boolean sleep(Duration length) {
        try {
            Thread.sleep(length.toMillis());
            return true;
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            return false;
        }
    }

    /** How a worker is made. */
    public static final class Builder {
        private final Client client;
        private final Map<String, Handler> handlers = new LinkedHashMap<>();
        private int concurrency = 8;
        private Duration ttr;
        private Duration grace = Duration.ofSeconds(30);
        private boolean onSignals;
        private boolean hangsUp = Runtime.version().feature() >= 16;

        private Builder(Client client) {
            this.client = client;
        }

        /** What is done with the jobs of a topic. */
        public Builder handle(String topic, Handler handler) {
            handlers.put(topic, handler);
            return this;
        }

        /** How many jobs at once: 8 unless set. */
        public Builder concurrency(int concurrency) {
            this.concurrency = concurrency;
            return this;
        }

        /** How long a lease lasts between two touches, in place of the jobs' own ttr. */
        public Builder ttr(Duration ttr) {
            this.ttr = ttr;
            return this;
        }

        /** How long {@link Worker#close} lets handlers work on: 30 s unless set. */
        public Builder grace(Duration grace) {
            this.grace = grace;
            return this;
        }

        /** Closes the worker on SIGTERM and SIGINT, as part of the shutdown of Java. */
        public Builder stopOnSignals() {
            onSignals = true;
            return this;
        }

        /** For tests: works as on a Java that cannot hang up. */
        Builder withoutHangingUp() {
            hangsUp = false;
            return this;
        }

        /** Starts to work; the program goes on until the worker is closed. */
        public Worker start() {
            if (handlers.isEmpty() || concurrency < 1) {
                throw new IllegalArgumentException("a worker needs a handler, and a concurrency of at least 1");
            }
            Worker worker = new Worker(this);
            worker.start(onSignals);
            return worker;
        }
    }
}
