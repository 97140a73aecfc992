package io.linger;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Pattern;

/** Stands between a client and a server, counts requests, and loses answers after the server has given them. */
final class Proxy implements AutoCloseable {
    private static final Pattern REQUEST = Pattern.compile("^(GET|POST|PUT|PATCH|DELETE) /");

    private final ServerSocket listener = new ServerSocket(0, 0, InetAddress.getLoopbackAddress());
    private final int port;
    private final AtomicInteger requests = new AtomicInteger();
    private final AtomicInteger toLose = new AtomicInteger();

    Proxy(TestServer server) throws IOException {
        port = server.port();
        daemon(this::accept);
    }

    String url() {
        return "http://127.0.0.1:" + listener.getLocalPort();
    }

    /** From now on counts anew, and loses so many answers. */
    void lose(int answers) {
        requests.set(0);
        toLose.set(answers);
    }

    int requests() {
        return requests.get();
    }

    @Override
    public void close() throws IOException {
        listener.close();
    }

    private void accept() {
        try {
            while (true) {
                Socket client = listener.accept();
                Socket server = new Socket(InetAddress.getLoopbackAddress(), port);
                daemon(() -> pump(client, server, true));
                daemon(() -> pump(server, client, false));
            }
        } catch (IOException closed) {
            // The test is over.
        }
    }

    private void pump(Socket from, Socket to, boolean isRequests) {
        byte[] buffer = new byte[64 * 1024];
        try (from; to) {
            InputStream in = from.getInputStream();
            OutputStream out = to.getOutputStream();
            for (int read = in.read(buffer); read >= 0; read = in.read(buffer)) {
                if (isRequests && REQUEST.matcher(new String(buffer, 0, read, StandardCharsets.ISO_8859_1)).find()) {
                    requests.incrementAndGet();
                }
                if (!isRequests && toLose.getAndUpdate(left -> Math.max(0, left - 1)) > 0) {
                    return;
                }
                out.write(buffer, 0, read);
            }
        } catch (IOException closed) {
            // One side has hung up, and so does the other.
        }
    }

    private static void daemon(Runnable task) {
        Thread thread = new Thread(task, "proxy");
        thread.setDaemon(true);
        thread.start();
    }
}
