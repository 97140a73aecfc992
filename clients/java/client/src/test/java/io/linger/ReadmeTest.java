package io.linger;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(120)
class ReadmeTest {
    @Test
    void the_first_program_works_as_shown(@TempDir Path folder) throws Exception {
        assertEquals("cancelled\nclose 1001\n", output("Example", folder));
    }

    @Test
    void the_program_of_service_mode_works_as_shown(@TempDir Path folder) throws Exception {
        assertEquals("pack a book\n", output("ServiceExample", folder));
    }

    private static String output(String name, Path folder) throws Exception {
        ProcessBuilder builder = new ProcessBuilder(Java.command(Readme.program(name, folder).toString()));
        builder.environment().put("LINGER_SERVER", TestServer.shared().url());
        Process program = builder.redirectError(ProcessBuilder.Redirect.INHERIT).start();
        String output = new String(program.getInputStream().readAllBytes());
        assertEquals(0, program.waitFor(), output);
        return output;
    }
}
