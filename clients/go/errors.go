package linger

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Error is a refusal: by the server, or by this client if no server could be reached.
type Error struct {
	Code    string `json:"code"`            // stable: what the caller can do about it
	Message string `json:"message"`         // for people
	Field   string `json:"field,omitempty"` // which one is at fault, if one is
	Status  int    `json:"-"`               // of HTTP; 0 if there was no answer

	cause error
}

// One for each code of the server, to compare with by [errors.Is].
var (
	ErrInvalid         = &Error{Code: "invalid"}          // the request is wrong, see Message and Field
	ErrNotFound        = &Error{Code: "not_found"}        // there is no such job, topic or worker
	ErrAlreadyExists   = &Error{Code: "already_exists"}   // the topic has a job of this id
	ErrLeaseLost       = &Error{Code: "lease_lost"}       // somebody else may have the job by now
	ErrWrongState      = &Error{Code: "wrong_state"}      // the job's state does not allow this
	ErrVersionMismatch = &Error{Code: "version_mismatch"} // the job has changed since
	ErrTooLarge        = &Error{Code: "too_large"}        // over a limit of size
	ErrUnauthorized    = &Error{Code: "unauthorized"}     // no API key, or a wrong one
	ErrForbidden       = &Error{Code: "forbidden"}        // the key is not for this call or topic
	ErrRateLimited     = &Error{Code: "rate_limited"}     // too many requests by this key
	ErrOverloaded      = &Error{Code: "overloaded"}       // more is in work than may be; nothing was done
	ErrUnavailable     = &Error{Code: "unavailable"}      // not reached, no answer in time, or not ready
	ErrStorageFull     = &Error{Code: "storage_full"}     // no space for new jobs; nothing was done
	ErrStorageFailed   = &Error{Code: "storage_failed"}   // whether it was done is unknown
)

func (e *Error) Error() string {
	text := "linger: " + e.Code
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

// Is tells whether target is an [Error] of the same code.
func (e *Error) Is(target error) bool {
	other, ok := target.(*Error)
	return ok && other.Code == e.Code
}

// Unwrap gives what kept the server from being reached, if that is known.
func (e *Error) Unwrap() error { return e.cause }

func unavailable(cause error) *Error {
	return &Error{Code: ErrUnavailable.Code, Message: cause.Error(), cause: cause}
}

// refusal reads the error of an answer. What stands between the client and the server may have
// answered in its place, in words of its own; then the status has to do.
func refusal(status int, body []byte) *Error {
	var answer struct{ Error *Error }
	if json.Unmarshal(body, &answer) == nil && answer.Error != nil && answer.Error.Code != "" {
		answer.Error.Status = status
		return answer.Error
	}
	return &Error{
		Code:    codeOf(status),
		Message: fmt.Sprintf("answered %d %s", status, http.StatusText(status)),
		Status:  status,
	}
}

func codeOf(status int) string {
	switch {
	case status == http.StatusUnauthorized:
		return ErrUnauthorized.Code
	case status == http.StatusForbidden:
		return ErrForbidden.Code
	case status == http.StatusNotFound:
		return ErrNotFound.Code
	case status == http.StatusRequestEntityTooLarge:
		return ErrTooLarge.Code
	case status == http.StatusTooManyRequests:
		return ErrRateLimited.Code
	case status >= 500:
		return ErrUnavailable.Code
	}
	return ErrInvalid.Code
}

// forGood tells whether asking again cannot help.
func forGood(err error) bool {
	return errors.Is(err, ErrInvalid) || errors.Is(err, ErrUnauthorized) ||
		errors.Is(err, ErrForbidden) || errors.Is(err, ErrTooLarge)
}

// RetryIn has a handler's job tried again after d, in place of the next step of its ladder. It fails
// with the text of err; of [Again], it is only not yet done.
func RetryIn(d time.Duration, err error) error { return &retryError{in: d, err: err} }

// Again is returned by a handler whose job cannot be done yet, which is no failure: it comes again at
// the next step of its ladder.
func Again() error { return errAgain }

var errAgain = errors.New("not yet")

type retryError struct {
	in  time.Duration
	err error
}

func (e *retryError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("to be tried again in %s", e.in)
	}
	return e.err.Error()
}

func (e *retryError) Unwrap() error { return e.err }

// errorCharsMax is how much of an error's text is told: an answer to a push must not grow beyond what the server reads.
const errorCharsMax = 4096

// clipped is the text, or as many of its first characters as may be told.
func clipped(text string) string {
	count := 0
	for at := range text {
		if count == errorCharsMax {
			return text[:at]
		}
		count++
	}
	return text
}

// failureOf is what the server is told of the error that a handler returned.
func failureOf(err error) Failure {
	var failure Failure
	if errors.Is(err, errAgain) {
		failure.Again = true
	} else {
		failure.Error = clipped(err.Error())
	}
	var retry *retryError
	if errors.As(err, &retry) {
		failure.RetryIn = &retry.in
	}
	return failure
}
