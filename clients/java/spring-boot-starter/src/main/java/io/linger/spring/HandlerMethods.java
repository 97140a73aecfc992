package io.linger.spring;

import io.linger.Handler;
import io.linger.Job;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Map;
import java.util.TreeMap;
import org.springframework.aop.support.AopUtils;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.core.MethodIntrospector;
import org.springframework.core.annotation.AnnotatedElementUtils;
import org.springframework.core.annotation.AnnotationUtils;
import org.springframework.util.ClassUtils;
import org.springframework.util.ReflectionUtils;

/** The handlers among the beans, found by their types: no bean is made for it. */
final class HandlerMethods {
    private HandlerMethods() {}

    static Map<String, Handler> in(ConfigurableListableBeanFactory beans) {
        Map<String, Handler> handlers = new TreeMap<>();
        for (String name : beans.getBeanDefinitionNames()) {
            Class<?> type = beans.getType(name, false);
            if (type != null && AnnotationUtils.isCandidateClass(type, LingerHandler.class)) {
                add(handlers, beans, name, ClassUtils.getUserClass(type));
            }
        }
        return handlers;
    }

    private static void add(Map<String, Handler> handlers, ConfigurableListableBeanFactory beans, String bean, Class<?> type) {
        Map<Method, LingerHandler> methods = MethodIntrospector.selectMethods(type,
                (MethodIntrospector.MetadataLookup<LingerHandler>)
                        method -> AnnotatedElementUtils.findMergedAnnotation(method, LingerHandler.class));
        methods.forEach((method, annotation) -> {
            if (method.getParameterCount() > 1) {
                throw new IllegalStateException("the handler " + method + " takes more than the job or its body");
            }
            for (String given : annotation.value()) {
                String topic = beans.resolveEmbeddedValue(given);
                if (handlers.put(topic, job -> call(beans.getBean(bean), method, job)) != null) {
                    throw new IllegalStateException("the topic " + topic + " has two handlers, one of them " + method);
                }
            }
        });
    }

    private static void call(Object bean, Method method, Job job) throws Exception {
        Method invocable = AopUtils.selectInvocableMethod(method, bean.getClass());
        ReflectionUtils.makeAccessible(invocable);
        Object[] arguments = method.getParameterCount() == 0 ? new Object[0] : new Object[] {argument(method, job)};
        try {
            invocable.invoke(bean, arguments);
        } catch (InvocationTargetException thrown) {
            ReflectionUtils.rethrowException(thrown.getTargetException());
        }
    }

    private static Object argument(Method method, Job job) {
        Class<?> type = method.getParameterTypes()[0];
        return type == Job.class ? job : job.body().as(ClassUtils.resolvePrimitiveIfNecessary(type));
    }
}
