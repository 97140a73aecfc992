package io.linger.spring;

import java.util.Map;
import java.util.Set;
import org.springframework.beans.factory.config.BeanFactoryPostProcessor;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.core.env.ConfigurableEnvironment;
import org.springframework.core.env.MapPropertySource;

/**
 * Writes the topics into the properties from which the Eureka client makes its metadata.
 *
 * <p>Once all beans are defined, since only then the handlers are known; before any is made, so that the Eureka client
 * reads what is written here. Nothing of Eureka is needed for it.
 */
final class EurekaMetadata implements BeanFactoryPostProcessor {
    private static final String METADATA = "eureka.instance.metadata-map.linger.";

    private final ConfigurableEnvironment environment;

    EurekaMetadata(ConfigurableEnvironment environment) {
        this.environment = environment;
    }

    @Override
    public void postProcessBeanFactory(ConfigurableListableBeanFactory beans) {
        Set<String> topics = HandlerMethods.in(beans).keySet();
        // Last, so that whoever sets them by hand has the say.
        environment.getPropertySources().addLast(new MapPropertySource("linger topics for eureka", Map.of(
                METADATA + "topics", String.join(",", topics),
                METADATA + "path", ServiceAddress.path(environment))));
    }
}
