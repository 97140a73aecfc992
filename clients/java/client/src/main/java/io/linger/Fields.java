package io.linger;

import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;

/** What a request says, by the names that the API has for it. */
abstract class Fields<T extends Fields<T>> {
    private final Map<String, Object> fields = new LinkedHashMap<>();

    /** Any field by its name in the API, for those that have no method here. Null is sent as null. */
    @SuppressWarnings("unchecked")
    public T set(String field, Object value) {
        fields.put(field, value);
        return (T) this;
    }

    Map<String, Object> fields() {
        return Collections.unmodifiableMap(fields);
    }

    @Override
    public String toString() {
        return fields.toString();
    }
}
