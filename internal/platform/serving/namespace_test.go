package serving_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/limpet-io/limpet/internal/platform/serving"
	"github.com/limpet-io/limpet/internal/testenv"
)

// about is the text of a request about a namespace.
func about(namespace, what string, padding int) io.Reader {
	return strings.NewReader(fmt.Sprintf(`{"request":{"uid":"u","namespace":%q,"name":%q}}`, namespace, what) + strings.Repeat(" ", padding))
}

// nameless handles requests, and holds those that say so until they may go.
type nameless struct {
	held, free chan struct{}
	mu         sync.Mutex
	order      []string // namespaces of the requests, as they were handled
}

func (n *nameless) handle(_ http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	n.mu.Lock()
	n.order = append(n.order, serving.NamespaceOf(text))
	n.mu.Unlock()
	if strings.Contains(string(text), "hang") {
		n.held <- struct{}{}
		<-n.free
	}
}

// The API server asks from one address for all tenants. Requests of one of them that take long
// must not keep those of the others out.
func TestANamespaceCannotTakeAllPlaces(t *testing.T) {
	n := &nameless{held: make(chan struct{}, limits.Small), free: make(chan struct{})}
	w := serve(t, n.handle, func(o *serving.Options) { o.Limits.PerNamespace = 2 })
	var all sync.WaitGroup
	defer all.Wait()
	defer close(n.free)
	for range 2 {
		all.Go(func() { _, _, _ = w.post(t, w.client("", nil), path, about("tenant", "hang", 0)) }) // it ends with the test
	}
	for range 2 {
		<-n.held
	}
	if status, text, err := w.post(t, w.client("", nil), path, about("tenant", "once more", 0)); err != nil || status != http.StatusServiceUnavailable {
		t.Errorf("a third request of a namespace: %d %q, %v; want 503", status, text, err)
	}
	if status, text, err := w.post(t, w.client("", nil), path, about("shop", "x", 0)); err != nil || status != http.StatusOK {
		t.Errorf("a request of another namespace: %d %q, %v", status, text, err)
	}
}

func TestLargeRequestsAreHandledInTurnsOfNamespaces(t *testing.T) {
	n := &nameless{held: make(chan struct{}, 1), free: make(chan struct{})}
	w := serve(t, n.handle, func(o *serving.Options) { o.Limits.Wait, o.Limits.Handle = time.Minute, time.Minute })
	var all sync.WaitGroup
	ask := func(namespace, what string) {
		before := w.Asking()
		all.Go(func() {
			if status, text, err := w.post(t, w.client("", nil), path, about(namespace, what, 2000)); err != nil || status != http.StatusOK {
				t.Errorf("a large request of %s: %d %q, %v", namespace, status, text, err)
			}
		})
		testenv.Eventually(t, func() error {
			if w.Asking() == before {
				return fmt.Errorf("%d requests wait", before)
			}
			return nil
		})
	}
	ask("tenant", "hang")
	<-n.held
	for range 3 {
		ask("tenant", "x")
	}
	ask("shop", "x")
	close(n.free)
	all.Wait()
	for i, namespace := range n.order {
		if namespace == "shop" && i > 2 {
			t.Errorf("large requests were handled in the order %v, want that of shop after two of tenant at most", n.order)
		}
	}
}

func TestNamespaceOf(t *testing.T) {
	review := func(edit ...func(*admissionv1.AdmissionRequest)) string {
		kind := metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}
		resource := metav1.GroupVersionResource{Version: "v1", Resource: "pods"}
		r := &admissionv1.AdmissionRequest{
			UID: "0b5b5f0c-7a52-4a39-9f0c-1f6f9f3f3f3f", Kind: kind, Resource: resource, SubResource: "eviction", RequestKind: &kind,
			RequestResource: &resource, RequestSubResource: "eviction", Name: strings.Repeat("n", 253), Namespace: "shop", Operation: admissionv1.Create,
			UserInfo: authenticationv1.UserInfo{Username: "u"}, Object: runtime.RawExtension{Raw: []byte(`{"request":{"namespace":"other"}}`)},
		}
		for _, e := range edit {
			e(r)
		}
		text, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: r})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for name, tc := range map[string]struct{ text, want string }{
		"as the API server writes it": {review(), "shop"},
		"a name that looks like more": {review(func(r *admissionv1.AdmissionRequest) { r.Name = `","namespace":"other` }), "shop"},
		"a name of 8 KiB":             {review(func(r *admissionv1.AdmissionRequest) { r.Name = strings.Repeat("n", 8<<10) }), ""},
		"of no namespace":             {review(func(r *admissionv1.AdmissionRequest) { r.Namespace = "" }), ""},
		"no review":                   {`[{"request":{"namespace":"shop"}}]`, ""},
		"a number":                    {`{"request":{"namespace":7}}`, ""},
		"a long namespace":            {`{"request":{"namespace":"` + strings.Repeat("n", 300) + `"}}`, ""},
		"no text":                     {"", ""},
		"deep":                        {strings.Repeat(`{"a":`, 1000), ""},
	} {
		if got := serving.NamespaceOf([]byte(tc.text)); got != tc.want {
			t.Errorf("%s: namespace %q, want %q", name, got, tc.want)
		}
	}
}
