package io.linger;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;
import javax.net.ssl.X509TrustManager;

/** Whom to trust. */
final class Tls {
    private Tls() {}

    /** The authorities of the system, and those in a file. */
    static SSLContext trusting(Path pem) {
        try (InputStream file = Files.newInputStream(pem)) {
            KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
            store.load(null, null);
            for (Certificate certificate : CertificateFactory.getInstance("X.509").generateCertificates(file)) {
                store.setCertificateEntry("file " + store.size(), certificate);
            }
            if (store.size() == 0) {
                throw new IllegalArgumentException(pem + " has no certificate in it");
            }
            for (X509Certificate certificate : authorities(null).getAcceptedIssuers()) {
                store.setCertificateEntry("system " + store.size(), certificate);
            }
            SSLContext tls = SSLContext.getInstance("TLS");
            tls.init(null, new TrustManager[] {authorities(store)}, null);
            return tls;
        } catch (IOException | GeneralSecurityException cause) {
            throw new IllegalArgumentException("cannot read the authorities in " + pem, cause);
        }
    }

    /** Trusts those in a store; null is the system's. */
    private static X509TrustManager authorities(KeyStore store) throws GeneralSecurityException {
        TrustManagerFactory factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        factory.init(store);
        for (TrustManager manager : factory.getTrustManagers()) {
            if (manager instanceof X509TrustManager) {
                return (X509TrustManager) manager;
            }
        }
        throw new GeneralSecurityException("this Java has no trust manager for X.509");
    }
}
