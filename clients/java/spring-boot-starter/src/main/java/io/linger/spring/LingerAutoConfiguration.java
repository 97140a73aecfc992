package io.linger.spring;

import com.fasterxml.jackson.databind.ObjectMapper;
import io.linger.Client;
import io.linger.Mapper;
import io.linger.Receiver;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnSingleCandidate;
import org.springframework.boot.autoconfigure.condition.ConditionalOnWebApplication;
import org.springframework.boot.autoconfigure.condition.NoneNestedConditions;
import org.springframework.boot.autoconfigure.jackson.JacksonAutoConfiguration;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Conditional;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.env.ConfigurableEnvironment;
import org.springframework.core.env.Environment;
import org.springframework.util.function.SingletonSupplier;

/** A client of Linger as a bean, and the bean methods with {@link LingerHandler} at work. */
@AutoConfiguration(after = JacksonAutoConfiguration.class)
@EnableConfigurationProperties(LingerProperties.class)
public class LingerAutoConfiguration {
    /** The client. */
    @Bean
    @ConditionalOnMissingBean
    public Client lingerClient(LingerProperties properties, ObjectProvider<Mapper> mapper) {
        Client.Builder builder = Client.builder()
                .connectTimeout(properties.connectTimeout())
                .timeout(properties.timeout())
                .mapper(mapper.getIfAvailable());
        if (!properties.servers().isEmpty()) {
            builder.servers(properties.servers().toArray(String[]::new));
        }
        if (properties.key() != null) {
            builder.key(properties.key());
        }
        if (properties.ca() != null) {
            builder.ca(properties.ca());
        }
        return builder.build();
    }

    /** Adds jobs for the application itself. */
    @Bean
    @ConditionalOnMissingBean
    public LingerTemplate lingerTemplate(Client client, LingerProperties properties, Environment environment) {
        boolean called = properties.mode() == LingerProperties.Mode.SERVICE;
        return new LingerTemplate(client, called ? "worker:" + ServiceAddress.app(environment) : null);
    }

    /** Bodies by Jackson, if it is there. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(ObjectMapper.class)
    static class Jackson {
        @Bean
        @ConditionalOnMissingBean
        @ConditionalOnSingleCandidate(ObjectMapper.class)
        Mapper lingerMapper(ObjectMapper jackson) {
            return Mapper.of(jackson::writeValueAsString, jackson::readValue);
        }
    }

    /** Handlers get jobs by popping them. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnProperty(name = "linger.mode", havingValue = "worker", matchIfMissing = true)
    static class WorkerMode {
        @Bean
        WorkerLifecycle lingerWorker(Client client, LingerProperties properties, ConfigurableListableBeanFactory beans) {
            return new WorkerLifecycle(client, properties, () -> HandlerMethods.in(beans));
        }
    }

    /** Handlers get jobs by being called. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnProperty(name = "linger.mode", havingValue = "service")
    @ConditionalOnWebApplication(type = ConditionalOnWebApplication.Type.SERVLET)
    static class ServiceMode {
        @Bean
        SingletonSupplier<Receiver> lingerReceiver(
                LingerProperties properties, ObjectProvider<Mapper> mapper, ConfigurableListableBeanFactory beans) {
            boolean unsigned = properties.secret().isEmpty();
            if (unsigned && !properties.unsigned()) {
                throw new IllegalStateException("linger.mode=service without linger.secret lets nobody in: set it,"
                        + " or linger.unsigned=true in a network without strangers");
            }
            return SingletonSupplier.of(() -> unsigned
                    ? Receiver.unsigned(HandlerMethods.in(beans), mapper.getIfAvailable())
                    : new Receiver(HandlerMethods.in(beans), properties.secret(), mapper.getIfAvailable()));
        }

        @Bean
        LingerEndpoint lingerEndpoint(SingletonSupplier<Receiver> receiver) {
            return new LingerEndpoint(receiver);
        }

        @Bean
        @ConditionalOnProperty(name = "linger.registry", havingValue = "linger", matchIfMissing = true)
        ServiceLifecycle lingerService(
                Client client, LingerProperties properties, Environment environment, SingletonSupplier<Receiver> receiver) {
            ServiceAddress address = new ServiceAddress(environment, properties, client.servers().get(0));
            return new ServiceLifecycle(client, properties, address, receiver);
        }

        @Bean
        @ConditionalOnProperty(name = "linger.registry", havingValue = "eureka")
        static EurekaMetadata lingerEurekaMetadata(ConfigurableEnvironment environment) {
            return new EurekaMetadata(environment);
        }
    }

    /** Says what is missing, in place of an application that is never called. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnProperty(name = "linger.mode", havingValue = "service")
    @Conditional(NoServlets.class)
    static class ServiceWithoutWeb {
        ServiceWithoutWeb() {
            throw new IllegalStateException(
                    "linger.mode=service needs an application with a servlet server: add spring-boot-starter-web");
        }
    }

    static class NoServlets extends NoneNestedConditions {
        NoServlets() {
            super(ConfigurationPhase.REGISTER_BEAN);
        }

        @ConditionalOnWebApplication(type = ConditionalOnWebApplication.Type.SERVLET)
        static class Servlets {}
    }
}
