package serving

import (
	"bytes"
	"net/http"
)

// answer is what a handler writes. It is sent after the request has left its place, so that a
// client that does not read it has none.
type answer struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

// WriteHeader keeps the status.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// Write keeps a part of the body.
func (a *answer) Write(part []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(part)
}

// send sends the answer.
func (a *answer) send() {
	a.WriteHeader(http.StatusOK)
	a.ResponseWriter.WriteHeader(a.status)
	_, _ = a.ResponseWriter.Write(a.body.Bytes()) // the client may be gone
}
