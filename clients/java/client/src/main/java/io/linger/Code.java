package io.linger;

import java.util.Locale;

/** Why a call was refused. The codes are the server's and stable: match on them, never on the text. */
public enum Code {
    /** The request is wrong, and sending it again will not help. */
    INVALID,
    /** There is no such job, topic or path. */
    NOT_FOUND,
    /** The topic has a job of this id. */
    ALREADY_EXISTS,
    /** The lease ran out, or was never yours: leave the job alone. */
    LEASE_LOST,
    /** The job is in a state that does not allow this. */
    WRONG_STATE,
    /** The job has changed since the version that was named. */
    VERSION_MISMATCH,
    /** Something is over its size limit. */
    TOO_LARGE,
    /** The server asks for an API key; of a webhook, its signature is missing, wrong or too old. */
    UNAUTHORIZED,
    /** This key may not do this. */
    FORBIDDEN,
    /** Too many requests; nothing was done. */
    RATE_LIMITED,
    /** More is in work than may be; nothing was done. */
    OVERLOADED,
    /** The server cannot be reached, did not answer in time, or cannot serve at present. */
    UNAVAILABLE,
    /** There is no space for new jobs; nothing was done. */
    STORAGE_FULL,
    /** Writing failed; whether it was done is unknown. */
    STORAGE_FAILED,
    /** An answer that this client does not know; the text has it. */
    UNKNOWN;

    static Code of(String name) {
        for (Code code : values()) {
            if (code.name().toLowerCase(Locale.ROOT).equals(name)) {
                return code;
            }
        }
        return UNKNOWN;
    }
}
