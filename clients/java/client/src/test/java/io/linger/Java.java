package io.linger;

import java.net.URISyntaxException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** How a program of one file is run with the client, as its users do. */
final class Java {
    private Java() {}

    static List<String> command(String... file) {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(List.of("-XX:TieredStopAtLevel=1", "-cp", client().toString()));
        command.addAll(List.of(file));
        return command;
    }

    private static Path client() {
        try {
            return Path.of(Client.class.getProtectionDomain().getCodeSource().getLocation().toURI());
        } catch (URISyntaxException cause) {
            throw new IllegalStateException(cause);
        }
    }
}
