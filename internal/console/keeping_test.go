package console_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/console/text"
	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

func asking(namespace, keep string) corev1.Namespace {
	return corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Annotations: map[string]string{reservation.KeepAnnotation: keep}}}
}

// The status says what the annotation of a namespace covers, and which value does nothing. It warns of no workload for
// which the namespace asks.
func TestStatusKnowsWhatNamespacesAsk(t *testing.T) {
	f := installed()
	f.Namespaces = []corev1.Namespace{asking("shop", "10m"), asking("typo", "soon"), asking("not", "0"), asking("kube-system", "10m")}
	set, deployment := appsv1.SchemeGroupVersion.WithKind("StatefulSet"), appsv1.SchemeGroupVersion.WithKind("Deployment")
	keep := map[string]string{reservation.KeepAnnotation: "5m"}
	f.Workloads = []facts.Workload{
		{Kind: set, Namespace: "shop", Name: "web"},
		{Kind: set, Namespace: "shop", Name: "db", Template: map[string]string{reservation.ModeAnnotation: "required"}},
		{Kind: set, Namespace: "shop", Name: "own", Annotations: keep},
		{Kind: set, Namespace: "shop", Name: "pods", Template: keep},
		{Kind: deployment, Namespace: "shop", Name: "front"},
		{Kind: set, Namespace: "typo", Name: "web"},
		{Kind: set, Namespace: "not", Name: "web"},
	}
	r := console.Status(f)
	if diff := cmp.Diff([]console.Keeping{{Namespace: "shop", For: "10m", Workloads: 2}}, r.Keeping); diff != "" {
		t.Errorf("namespaces (-want +got):\n%s", diff)
	}
	var told []string
	for _, p := range r.Problems {
		told = append(told, p.Reason+" "+p.Object)
	}
	if want := []string{pin.ReasonIgnored + " Namespace kube-system", pin.ReasonIgnored + " Namespace typo"}; !slices.Equal(told, want) {
		t.Errorf("problems %q, want %q", told, want)
	}
	var out strings.Builder
	text.Status(&out, text.Style{}, r)
	for _, want := range []string{"namespaces that keep addresses: shop (10m, 2 workloads)\n", `"soon"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the status lacks %q:\n%s", want, out.String())
		}
	}
}

// A thousand namespaces that ask take one line.
func TestStatusOfManyNamespaces(t *testing.T) {
	f := installed()
	for i := range 1000 {
		f.Namespaces = append(f.Namespaces, asking(fmt.Sprint("shop-", i), "10m"))
	}
	var out strings.Builder
	text.Status(&out, text.Style{}, console.Status(f))
	if !strings.Contains(out.String(), ", shop-9 (10m, 0 workloads), and 990 more\n") {
		t.Errorf("the status:\n%s", out.String())
	}
}

// A pod for which nothing is kept though its namespace asks explains that.
func TestAPodExplainsThatNothingIsKept(t *testing.T) {
	for from, want := range map[string]string{
		pin.KeepFromNone: "its namespace asks for a reservation, and nothing is kept", "": "the pod asks for no reservation",
	} {
		f := installed()
		pod := testenv.APod("web-0").In("shop").OwnedBy(testenv.AStatefulSet("web", 1).In("shop").StatefulSet)
		if from != "" {
			pod = pod.With(pin.AnnotationKeepFrom, from)
		}
		f.Pods = []corev1.Pod{*pod.Pod}
		e, err := console.Address(f, "shop", "web-0")
		if err != nil || !strings.Contains(strings.Join(e.Because, "\n"), want) {
			t.Errorf("from %q: %+v, %v, want %q", from, e, err, want)
		}
	}
}

// A pod explains whether its address follows it, and why not.
func TestAPodExplainsWhetherItsAddressFollows(t *testing.T) {
	for network, want := range map[string]string{
		"limpet": "follows it to other nodes", "lan": "which means preferred: network lan of node n1 is neither", "": "which means preferred: the network of node n1 is not known",
	} {
		f := installed()
		pod := testenv.APod("web-0").In("shop").OwnedBy(testenv.AStatefulSet("web", 1).In("shop").StatefulSet).With(reservation.ModeAnnotation, "follow").On("n1").At("10.0.0.7")
		f.Pods, f.Reservations = []corev1.Pod{*pod.Pod}, nil
		r := testenv.AReservation(pod.Pod, f.Now)
		if r.Status.Network = network; network == "limpet" {
			r.Status.RetainMinutes = int32(reservation.Forever.Minutes())
		}
		if network != "" {
			second := r.DeepCopy()
			second.Name, second.Status.Network, second.Status.IPs, second.Status.RetainMinutes = "second", "beside", "10.1.0.7", 10
			f.Reservations = []limpetv1alpha1.IPReservation{*r, *second}
		}
		e, err := console.Address(f, "shop", "web-0")
		if err != nil || !strings.Contains(strings.Join(e.Because, "\n"), want) {
			t.Errorf("network %q: %+v, %v, want %q", network, e, err, want)
		}
	}
}
