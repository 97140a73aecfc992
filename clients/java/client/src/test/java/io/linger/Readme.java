package io.linger;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Takes programs out of the README. */
public final class Readme {
    private static final Pattern JAVA = Pattern.compile("```java\n(.*?)```", Pattern.DOTALL);

    private Readme() {}

    /** Writes the program with this class into a folder, and tells where it is. */
    public static Path program(String name, Path folder) throws IOException {
        Matcher block = JAVA.matcher(Files.readString(TestServer.clients().resolve("java/README.md")));
        while (block.find()) {
            if (block.group(1).contains("class " + name + " {")) {
                return Files.writeString(folder.resolve(name + ".java"), block.group(1));
            }
        }
        throw new AssertionError("the README has no program " + name);
    }
}
