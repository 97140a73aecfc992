package io.linger.spring;

import io.linger.Receiver;
import java.util.function.Supplier;
import org.springframework.http.HttpHeaders;
import org.springframework.http.MediaType;
import org.springframework.http.ResponseEntity;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.RequestHeader;
import org.springframework.web.bind.annotation.RestController;

/** Where Linger calls the application. */
@RestController
public class LingerEndpoint {
    private final Supplier<Receiver> receiver;

    LingerEndpoint(Supplier<Receiver> receiver) {
        this.receiver = receiver;
    }

    /** Takes a delivery. */
    @PostMapping("${linger.path:/linger}")
    public ResponseEntity<byte[]> receive(@RequestHeader HttpHeaders headers, @RequestBody(required = false) byte[] body) {
        Receiver.Reply reply = receiver.get().receive(headers::getFirst, body == null ? new byte[0] : body);
        ResponseEntity.BodyBuilder response = ResponseEntity.status(reply.status());
        return reply.body().length == 0 ? response.build() : response.contentType(MediaType.APPLICATION_JSON).body(reply.body());
    }
}
