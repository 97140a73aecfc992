package io.linger;

/** What is done with a job of a topic. */
@FunctionalInterface
public interface Handler {
    /**
     * Works on the job, which is finished when this returns.
     *
     * @throws Exception to fail the job, with its message as the error; {@link RetryIn} and {@link Again} say more
     */
    void handle(Job job) throws Exception;
}
