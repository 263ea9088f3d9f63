package serving_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	admissionapi "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/platform/serving"
	"github.com/limpet-io/limpet/internal/testenv"
)

// reviewOf is an AdmissionReview as the API server writes it, with some text in the object.
func reviewOf(operation, text string) io.Reader {
	return strings.NewReader(fmt.Sprintf(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u-1",`+
		`"kind":{"group":"","version":"v1","kind":"Pod"},"name":"web-0","namespace":"shop","operation":%q,"object":{"a":%q}}}`, operation, text))
}

// A request that is not handled is answered in a way that the API server does not take for a
// failed webhook: otherwise it would pass where the failure policy is Ignore.
func TestARequestThatIsNotHandledIsAnsweredInAReview(t *testing.T) {
	held, free := make(chan struct{}, limits.Small), make(chan struct{})
	w := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if text, _ := io.ReadAll(r.Body); strings.Contains(string(text), "hang") {
			held <- struct{}{}
			<-free
		}
	}, func(o *serving.Options) { o.AnswerInReview = []string{path} })
	ask := func(body io.Reader) (*admissionapi.AdmissionResponse, int) {
		status, text, err := w.post(t, w.client("127.0.0.2", nil), path, body)
		if err != nil {
			t.Fatal(err)
		}
		var answer admissionapi.AdmissionReview
		if json.Unmarshal([]byte(text), &answer) != nil || answer.Response == nil || answer.Response.UID != "u-1" {
			return nil, status
		}
		return answer.Response, status
	}
	long := strings.Repeat("x", int(limits.Admission.Bytes))
	for what, body := range map[string]io.Reader{"long": reviewOf("UPDATE", long), "long, of unknown length": chunked{reviewOf("UPDATE", long)}} {
		if answer, _ := ask(body); answer == nil || answer.Allowed || answer.Result.Code != http.StatusTooManyRequests {
			t.Errorf("a change that is %s: answer %+v, want a refusal", what, answer)
		}
	}
	if answer, _ := ask(reviewOf("DELETE", long)); answer == nil || !answer.Allowed || len(answer.Warnings) == 0 {
		t.Errorf("a deletion that is too long: answer %+v, want that it passes with a warning", answer)
	}
	if answer, status := ask(strings.NewReader(long + long)); answer != nil || status != http.StatusRequestEntityTooLarge {
		t.Errorf("a text that is no review: answer %+v with status %d", answer, status)
	}
	var all sync.WaitGroup
	defer all.Wait()
	defer close(free)
	for range limits.PerSource {
		all.Go(func() { _, _, _ = w.post(t, w.client("127.0.0.2", nil), path, strings.NewReader("hang")) }) // it ends with the test
	}
	for range limits.PerSource {
		<-held
	}
	if answer, _ := ask(reviewOf("DELETE", "x")); answer == nil || answer.Allowed || answer.Result.Code != http.StatusTooManyRequests {
		t.Errorf("while all places are taken: answer %+v, want a refusal", answer)
	}
}

// An API server asks much at once, also one in the same network namespace: no connection is closed without an answer, after
// which the request would pass where the failure policy is Ignore.
func TestHundredsOfRequestsAtOnceAreAnswered(t *testing.T) {
	const requests = 200
	for _, from := range []string{"127.0.0.1", "127.0.0.2"} { // the server is at the first
		free := make(chan struct{})
		w := serve(t, func(http.ResponseWriter, *http.Request) { <-free }, func(o *serving.Options) { o.AnswerInReview = []string{path} })
		answered := make(chan error, requests)
		for range requests {
			go func() {
				_, _, err := w.post(t, w.client(from, nil), path, reviewOf("DELETE", "x"))
				answered <- err
			}()
		}
		for n := range requests {
			if n == requests-limits.PerSource { // the others are being handled
				close(free)
			}
			if err := <-answered; err != nil {
				t.Errorf("from %s: %v", from, err)
			}
		}
	}
}

// A request waits and is handled for less time than the API server waits for the answer.
func TestARequestIsAnsweredBeforeTheAPIServerWaitsNoLonger(t *testing.T) {
	left := make(chan time.Duration, 1)
	w := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		deadline, _ := r.Context().Deadline()
		left <- time.Until(deadline)
	}, func(o *serving.Options) { o.AnswerInReview = []string{path} })
	for query, most := range map[string]time.Duration{
		"": limits.Handle, "?timeout=5s": 2500 * time.Millisecond, "?timeout=30s": limits.Handle, "?timeout=no": limits.Handle,
	} {
		if _, _, err := w.post(t, w.client("", nil), path+query, reviewOf("DELETE", "x")); err != nil {
			t.Fatal(err)
		}
		if got := <-left; got > most || got <= 0 {
			t.Errorf("%q: %s are left, want at most %s", query, got, most)
		}
	}
}

// A tenant makes a change so large that the webhook does not read it, and the API server would
// let it pass: it is refused, with what else it changes.
func TestAChangeThatIsTooLargeDoesNotPass(t *testing.T) {
	handler := &webhook.Admission{Handler: admission.HandlerFunc(func(_ context.Context, _ admission.Request) admission.Response {
		return admission.Allowed("").WithWarnings("limpet answered")
	})}
	w := serve(t, handler.ServeHTTP, func(o *serving.Options) { o.Limits, o.AnswerInReview = serving.DefaultLimits, []string{path} })
	url, none, ignore := w.url+path, admissionv1.SideEffectClassNone, admissionv1.Ignore
	env.Create(t, &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "large"},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "large.limpet.dev", AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, FailurePolicy: &ignore,
			ClientConfig: admissionv1.WebhookClientConfig{URL: &url, CABundle: w.authority.pem},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Update, admissionv1.Delete},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
		}},
	})
	c, heard := env.Listen(t)
	pod := testenv.APod("large").In(env.Namespace(t)).Pod
	env.Create(t, pod)
	testenv.Eventually(t, func() error {
		env.Read(t, client.ObjectKeyFromObject(pod), pod)
		metav1.SetMetaDataLabel(&pod.ObjectMeta, "asked", "yes")
		if err := c.Update(t.Context(), pod); err != nil {
			return err
		}
		return heard.Names("limpet answered")
	})
	for i := range 55_000 {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: fmt.Sprint("a", i), Operator: corev1.TolerationOpExists})
	}
	pod.Labels = map[string]string{"app": "other"}
	if err := c.Update(t.Context(), pod); !apierrors.IsTooManyRequests(err) {
		t.Errorf("update: %.300v, want a refusal", err)
	}
}
