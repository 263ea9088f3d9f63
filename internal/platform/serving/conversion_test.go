package serving_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	"github.com/limpet-io/limpet/internal/platform/serving"
	"github.com/limpet-io/limpet/pkg/api/apps/v1alpha1"
	"github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// converter answers conversions as the controller does.
func converter(t *testing.T) http.HandlerFunc {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := v1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return conversion.NewWebhookHandler(scheme, conversion.NewRegistry()).ServeHTTP
}

// review is a ConversionReview of one object. Its variable part has about as many bytes as
// told, made of items with different numbers.
func review(part string, bytes int, item string) string {
	object := `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"PersistentPodState",` + part + `}`
	var items strings.Builder
	for i := 0; items.Len() < bytes; i++ {
		if i > 0 {
			items.WriteByte(',')
		}
		items.WriteString(strings.ReplaceAll(item, "#", shortest(i)))
	}
	object = strings.Replace(object, "…", items.String(), 1)
	return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"1",` +
		`"desiredAPIVersion":"apps.kruise.io/v1beta1","objects":[` + object + `]}}`
}

// shortest is a number with few digits.
func shortest(i int) string {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
	out := ""
	for ; i >= len(digits); i /= len(digits) {
		out += digits[i%len(digits) : i%len(digits)+1]
	}
	return out + digits[i:i+1]
}

const stored = 3 << 19 // bytes that etcd stores

// A text that is large in memory, or in the answer, is refused. An object that etcd can store
// is converted: otherwise one object would make every list of the former version fail.
func TestConversionsAreBounded(t *testing.T) {
	w := serve(t, converter(t), func(o *serving.Options) { o.Limits = serving.DefaultLimits })
	cases := map[string]struct {
		body       string
		wantStatus int
	}{
		"as many records as fit into 7 MiB": {review(`"status":{"podStates":{…}}`, 7<<20-400, `"#":{}`), 413},
		"escapes for 7 MiB":                 {review(`"metadata":{"annotations":{"a":"…"}}`, 1, strings.Repeat("<", 7<<20-400)), 413},
		"escapes for 2 MiB":                 {review(`"metadata":{"annotations":{"a":"…"}}`, 1, strings.Repeat("<", 2<<20-400)), 413},
		"a million empty owners":            {review(`"metadata":{"ownerReferences":[…]}`, stored, `{}`), 413},
		"a million short texts as owners":   {review(`"metadata":{"ownerReferences":[…]}`, stored, `""`), 413},
		"numbers as owners":                 {review(`"metadata":{"ownerReferences":[…]}`, stored, `1`), 413},
		"50 001 finalizers":                 {review(`"metadata":{"finalizers":[…]}`, 50_001*8, `"a/#"`), 200},
		"finalizers that etcd can store":    {review(`"metadata":{"finalizers":[…]}`, stored, `"a/#"`), 200},
		"the shortest finalizers":           {review(`"metadata":{"finalizers":[…]}`, stored, `"a/b"`), 200},
		"owners that etcd can store": {
			review(`"metadata":{"ownerReferences":[…]}`, stored, `{"apiVersion":"v","kind":"k","name":"n","uid":"u"}`), 200,
		},
		"labels that etcd can store":         {review(`"metadata":{"labels":{…}}`, stored, `"#":""`), 200},
		"records that etcd can store":        {review(`"status":{"podStates":{…}}`, stored, `"#":{}`), 200},
		"managed fields that etcd can store": {review(`"metadata":{"managedFields":[{"fieldsV1":{…}}]}`, stored, `"f:#":{}`), 200},
		"escapes that etcd can store":        {review(`"metadata":{"annotations":{"a":"…"}}`, 1, strings.Repeat(`\u003c`, stored/6)), 200},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			status, text, err := w.post(t, w.client("", nil), serving.ConversionPath, chunked{strings.NewReader(tc.body)})
			if status != tc.wantStatus && (err == nil || tc.wantStatus == 200) {
				t.Errorf("status %d, %v, want %d: %.300s", status, err, tc.wantStatus, text)
			}
		})
	}
}

// The costliest requests of many addresses, side by side and with answers that are not read,
// take less than half of the limit of 512 MiB.
func TestCostlyRequestsFitTheMemoryLimit(t *testing.T) {
	const addresses, each = 6, 4
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(200 << 20)) // GOMEMLIMIT less what else the controller has
	convert, judge := converter(t), webhook.Admission{Handler: decodes{}}
	w := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == serving.ConversionPath {
			convert(w, r)
		} else {
			judge.ServeHTTP(w, r)
		}
	}, func(o *serving.Options) { o.Limits = serving.DefaultLimits })
	most := int(serving.DefaultLimits.Conversion.Bytes) - 400
	bodies := []string{
		review(`"status":{"podStates":{…}}`, most, `"#":{}`),
		review(`"metadata":{"ownerReferences":[…]}`, 65_000*3, `{}`),
		review(`"metadata":{"managedFields":[…]}`, most, `"aaa"`),
		review(`"metadata":{"annotations":{"a":"…"}}`, 1, strings.Repeat("<", most/6)),
		podReview(strings.Repeat("{},", 66_000) + "{}"),
		podReview(`{"args":["` + strings.Repeat("<", 1<<20) + `"]}`),
	}
	var answered atomic.Int64
	taken := memoryAtMost(func() {
		var all sync.WaitGroup
		for i := range addresses {
			all.Go(func() {
				for j := range each {
					c := w.dial(t, fmt.Sprintf("127.0.0.%d", 10+i))
					path, body := serving.ConversionPath, bodies[(i+j)%len(bodies)]
					if strings.Contains(body, "AdmissionReview") {
						path = "/mutate-pod"
					}
					_, _ = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", path, len(body))
					_, _ = io.Copy(c, strings.NewReader(body)) // the connection may be displaced
					if n, _ := io.ReadFull(c, make([]byte, 12)); n == 12 {
						answered.Add(1)
					}
				}
			})
		}
		all.Wait()
	})
	if taken > 256<<20 {
		t.Errorf("the requests took %d MiB, want at most 256", taken>>20)
	}
	if answered.Load() == 0 {
		t.Error("no request was answered")
	}
	t.Logf("%d MiB, %d answers", taken>>20, answered.Load())
}

// podReview is an AdmissionReview of a pod with containers.
func podReview(containers string) string {
	return `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":"CREATE",` +
		`"object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[` + containers + `]}}}}`
}

// decodes reads a pod, as handlers of pods do.
type decodes struct{}

func (decodes) Handle(_ context.Context, req admission.Request) admission.Response {
	var pod corev1.Pod
	if err := json.Unmarshal(req.Object.Raw, &pod); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	return admission.Allowed(pod.Name)
}

// dial opens a connection that lasts until the test ends.
func (w *webhooks) dial(t *testing.T, from string) *tls.Conn {
	t.Helper()
	d := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := tls.DialWithDialer(d, "tcp", strings.TrimPrefix(w.url, "https://"), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Error(err)
		return nil
	}
	t.Cleanup(func() { _ = c.Close() }) // the server may have closed it
	return c
}

// Answers that are not read share a room, and those of the address that has most give way.
func TestUnreadAnswersAreBounded(t *testing.T) {
	const length = 4 << 20 // more than the buffers of a connection
	w := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, length)) },
		func(o *serving.Options) { o.Limits.Answers = 3 * length })
	var unread []*tls.Conn
	for range 3 {
		c := w.dial(t, "127.0.0.2")
		if err := c.NetConn().(*net.TCPConn).SetReadBuffer(64 << 10); err != nil { // else the kernel may take all of an answer
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx", path)
		if _, err := io.ReadFull(c, make([]byte, 12)); err != nil { // the answer begins
			t.Fatal(err)
		}
		unread = append(unread, c)
	}
	if status, text, err := w.post(t, w.client("127.0.0.3", nil), path, strings.NewReader("x")); status != http.StatusOK || len(text) != length || err != nil {
		t.Errorf("another address: %d, %d bytes, %v", status, len(text), err)
	}
	if n, err := io.Copy(io.Discard, unread[0]); n >= length {
		t.Errorf("the oldest unread answer has %d bytes, %v; want that it gave way", n, err)
	}
}

// Any client may ask for conversions. Those of one address are handled one after the other,
// and none keeps an admission waiting, however large.
func TestConversionsDelayNoAdmission(t *testing.T) {
	held, free := make(chan struct{}, 10), make(chan struct{})
	w := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if text, _ := io.ReadAll(r.Body); strings.HasPrefix(string(text), "hang") {
			held <- struct{}{}
			<-free
		}
	})
	var all sync.WaitGroup
	defer all.Wait()
	defer close(free)
	long := strings.Repeat(" ", 2000)
	for _, hanging := range []struct{ from, body string }{{"127.0.0.2", "hang"}, {"127.0.0.2", "hang" + long}} {
		all.Go(func() { // it ends with the test
			_, _, _ = w.post(t, w.client(hanging.from, nil), serving.ConversionPath, strings.NewReader(hanging.body))
		})
		<-held
	}
	ask := func(what, from, path, body string, want int) {
		t.Helper()
		if status, _, err := w.post(t, w.client(from, nil), path, strings.NewReader(body)); err != nil || status != want {
			t.Errorf("%s: %d, %v, want %d", what, status, err, want)
		}
	}
	ask("a second conversion of the address", "127.0.0.2", serving.ConversionPath, "x", http.StatusServiceUnavailable)
	ask("a conversion of another address", "127.0.0.3", serving.ConversionPath, "x", http.StatusOK)
	ask("a large one of another address", "127.0.0.3", serving.ConversionPath, long, http.StatusServiceUnavailable)
	ask("an admission of the address", "127.0.0.2", path, "x", http.StatusOK)
	ask("a large admission", "127.0.0.2", path, long, http.StatusOK)
	all.Go(func() { // it ends with the test
		_, _, _ = w.post(t, w.client("127.0.0.3", nil), serving.ConversionPath, strings.NewReader("hang"))
	})
	<-held
	ask("a conversion of a third address", "127.0.0.4", serving.ConversionPath, "x", http.StatusServiceUnavailable)
	ask("an admission of a third address", "127.0.0.4", path, "x", http.StatusOK)
}
