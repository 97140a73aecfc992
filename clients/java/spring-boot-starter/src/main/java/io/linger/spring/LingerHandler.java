package io.linger.spring;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * A bean method that handles the jobs of a topic. It takes the {@link io.linger.Job}, or its body as whatever type its
 * one parameter has, or nothing. The job is finished when it returns, and fails when it throws;
 * {@link io.linger.RetryIn} and {@link io.linger.Again} say more.
 */
@Target(ElementType.METHOD)
@Retention(RetentionPolicy.RUNTIME)
@Documented
public @interface LingerHandler {
    /** The topics; <code>${…}</code> in them is a property. */
    String[] value();
}
