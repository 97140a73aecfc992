package io.linger;

import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.function.Function;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/** A page of a list. To go through it is to go through those that follow as well, which are asked for on the way. */
public final class Page<T> implements Iterable<T> {
    private final Json json;
    private final List<T> items;
    private final Function<String, Page<T>> more;

    Page(Json json, List<T> items, Function<String, Page<T>> more) {
        this.json = json;
        this.items = items;
        this.more = more;
    }

    /** What is on this page alone; it may be empty though others follow. */
    public List<T> items() {
        return items;
    }

    /** Where the next page begins; empty on the last one. */
    public Optional<String> cursor() {
        return Optional.ofNullable(json.get("cursor")).map(Json::text);
    }

    /** The next page, if there is one. */
    public Optional<Page<T>> next() {
        return cursor().map(more);
    }

    /** All from here to the end of the last page. */
    public Stream<T> stream() {
        return StreamSupport.stream(spliterator(), false);
    }

    /** All from here to the end of the last page. */
    @Override
    public Iterator<T> iterator() {
        return new Iterator<>() {
            private Page<T> page = Page.this;
            private Iterator<T> here = items.iterator();

            @Override
            public boolean hasNext() {
                while (!here.hasNext()) {
                    Optional<Page<T>> next = page.next();
                    if (next.isEmpty()) {
                        return false;
                    }
                    page = next.get();
                    here = page.items.iterator();
                }
                return true;
            }

            @Override
            public T next() {
                if (!hasNext()) {
                    throw new NoSuchElementException();
                }
                return here.next();
            }
        };
    }

    /** All that the server told on this page. */
    public Json json() {
        return json;
    }
}
