package serving

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// recorder is a body whose head is kept.
type recorder struct {
	io.ReadCloser
	head []byte
}

// Read reads on.
func (r *recorder) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.head = append(r.head, p[:min(n, headLength-len(r.head))]...)
	return n, err
}

// timeOf is how long the API server waits for the answer to a request: it tells its timeout in the
// URL.
func timeOf(r *http.Request) time.Duration {
	timeout, err := time.ParseDuration(r.URL.Query().Get("timeout"))
	if err != nil || timeout <= 0 || timeout > answerTimeout {
		return answerTimeout
	}
	return timeout
}

// timeBefore is how long a request may wait and be handled: half of the time that the API server waits.
// Under load the way here and back takes seconds, too. The API server's own answer after its time would
// let the request pass.
func timeBefore(r *http.Request) time.Duration {
	if timeout := timeOf(r); timeout < answerTimeout {
		return timeout / 2
	}
	return answerTimeout
}

// answerInReview answers a request that is not handled with an AdmissionReview. The API server
// takes any other answer for a failed webhook, and lets the request pass where the failure policy
// is Ignore. It returns false where the request does not tell its UID.
//
// A request for which there is no place now may come again. A change that is too large to be
// judged must not happen. A deletion that is too large is let through: no namespace with such a
// pod could be deleted otherwise, and only a creation makes such a pod.
func (g *gate) answerInReview(w http.ResponseWriter, body *recorder, no *refusal) bool {
	if missing := headLength - len(body.head); missing > 0 { // refused before it was read
		_ = http.NewResponseController(w).SetReadDeadline(g.clock.Now().Add(smallBodyTimeout)) // reading fails then
		_, _ = io.CopyN(io.Discard, body, int64(missing))                                      // the head may be shorter
	}
	uid, operation := identityOf(body.head)
	if uid == "" {
		return false
	}
	response := &admissionv1.AdmissionResponse{UID: types.UID(uid)}
	if no.code == http.StatusRequestEntityTooLarge && operation == string(admissionv1.Delete) {
		response.Allowed = true
		response.Warnings = []string{"limpet-controller: the pod is too large to be judged"}
	} else {
		response.Result = &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests,
			Message: "limpet-controller: " + no.message,
		}
	}
	review := admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}, Response: response,
	}
	text, err := json.Marshal(review)
	if err != nil {
		return false // cannot happen: the type has no value that cannot be written
	}
	w.Header().Set("Content-Type", "application/json")
	_, err = fmt.Fprintf(w, "%s", text)
	return err == nil
}

// identityOf returns the UID and the operation of an AdmissionReview, from its head; "" for what
// the head does not tell.
func identityOf(head []byte) (uid, operation string) {
	d := json.NewDecoder(bytes.NewReader(head))
	if !enter(d) || !find(d, "request") || !enter(d) || !find(d, "uid") || d.Decode(&uid) != nil {
		return "", ""
	}
	if !find(d, "operation") || d.Decode(&operation) != nil {
		operation = ""
	}
	return uid, operation
}
