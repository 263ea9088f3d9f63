package console_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// TestAPlaceIsGivenUpWhileTheControllerWrites answers the first patches with a conflict, as the API server does after
// the controller has written the status.
func TestAPlaceIsGivenUpWhileTheControllerWrites(t *testing.T) {
	const conflicts = 2
	var patches []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodPatch {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			if patches = append(patches, string(body)); len(patches) <= conflicts {
				w.WriteHeader(http.StatusConflict)
				_, _ = fmt.Fprint(w, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Conflict","code":409}`)
				return
			}
		}
		_, _ = fmt.Fprintf(w, `{"apiVersion":%q,"kind":"PersistentPodState","metadata":{"namespace":"shop","name":"web","resourceVersion":"v%d"},`+
			`"status":{"podStates":{"web-0":{"uid":"u0"},"web-1":{"uid":"u1"}}}}`, appsv1beta1.GroupVersion, len(patches))
	}))
	t.Cleanup(server.Close)
	r := console.ReleaseReport{Namespace: "shop", Places: []console.Place{{State: "web", Pod: "web-0", UID: "u0", Outcome: console.Releasable}}}
	if err := r.Ask(t.Context(), talkingTo(t, server.URL)); err != nil || r.Places[0].Outcome != console.Asked {
		t.Errorf("error %v, places %+v", err, r.Places)
	}
	if len(patches) != conflicts+1 {
		t.Fatalf("%d patches, want %d", len(patches), conflicts+1)
	}
	for i, p := range patches {
		if !strings.Contains(p, fmt.Sprintf(`"resourceVersion":"v%d"`, i)) || !strings.Contains(p, fmt.Sprintf(`%q:"u0"`, pin.AnnotationForget)) {
			t.Errorf("patch %d is %s", i, p)
		}
	}
}

// talkingTo returns a client of a server that has PersistentPodStates and IPReservations.
func talkingTo(t *testing.T, url string) client.Client {
	t.Helper()
	kinds := runtime.NewScheme()
	utilruntime.Must(appsv1beta1.AddToScheme(kinds))
	utilruntime.Must(limpetv1alpha1.AddToScheme(kinds))
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(appsv1beta1.GroupVersion.WithKind("PersistentPodState"), meta.RESTScopeNamespace)
	mapper.Add(limpetv1alpha1.GroupVersion.WithKind("IPReservation"), meta.RESTScopeNamespace)
	c, err := client.New(&rest.Config{Host: url}, client.Options{Scheme: kinds, Mapper: mapper})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestTooManyPlacesAreNotAskedFor plans more places of one object than the controller reads. Nothing is released then,
// because a second try would not know the places of the pods whose reservations are gone.
func TestTooManyPlacesAreNotAskedFor(t *testing.T) {
	state := testenv.APersistentPodState("web").In("shop").PersistentPodState
	state.Status.PodStates = map[string]appsv1beta1.PodState{}
	f := &facts.Facts{}
	add := func(i int) {
		name := fmt.Sprint("web-", i)
		state.Status.PodStates[name] = appsv1beta1.PodState{UID: types.UID(name), NodeName: "n1"}
		f.Reservations = append(f.Reservations, kept(name, "n1", "10.0.0.1", 10))
		f.States = []appsv1beta1.PersistentPodState{*state}
	}
	for i := range pin.MostForgotten {
		add(i)
	}
	q := console.ReleaseQuery{All: true, Forget: true}
	if r, err := console.PlanRelease(f, "shop", q); err != nil || r.CountPlaces(console.Releasable) != pin.MostForgotten {
		t.Errorf("%d places, error %v", len(r.Places), err)
	}
	add(pin.MostForgotten)
	if _, err := console.PlanRelease(f, "shop", q); err == nil || !strings.Contains(err.Error(), "--node") {
		t.Errorf("error %v, want what to do", err)
	}
}

// TestPodsOfARelease counts the pods that lose something: one with two networks, one with a place alone, none that runs.
func TestPodsOfARelease(t *testing.T) {
	state := testenv.APersistentPodState("web").In("shop").Recorded("web-1", "n1", nil).Recorded("web-2", "n1", nil).PersistentPodState
	for name, record := range state.Status.PodStates {
		record.UID = types.UID(name)
		state.Status.PodStates[name] = record
	}
	second := kept("web-0", "n1", "10.0.1.1", 10)
	second.Name, second.Status.Interface = "web-0.net1.net.n1", "net1"
	f := &facts.Facts{
		Reservations: []limpetv1alpha1.IPReservation{kept("web-0", "n1", "10.0.0.1", 10), second},
		Pods:         []corev1.Pod{*testenv.APod("web-2").In("shop").Pod},
		States:       []appsv1beta1.PersistentPodState{*state},
	}
	r, err := console.PlanRelease(f, "shop", console.ReleaseQuery{Names: []string{"web-0", "web-1", "web-2"}, Forget: true})
	if err != nil || r.Count(console.Releasable) != 2 || r.CountPlaces(console.Releasable) != 1 || r.Pods() != 2 {
		t.Errorf("error %v, %d pods, report %+v", err, r.Pods(), r)
	}
}
