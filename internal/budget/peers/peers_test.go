package peers_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/budget/peers"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

const budgets = "/apis/limpet.dev/v1alpha1/"

// kubeconfig writes one with a context for a cluster that a server answers for.
func kubeconfig(t *testing.T, server string, edit func(*clientcmdapi.AuthInfo)) string {
	t.Helper()
	c, user := clientcmdapi.NewConfig(), &clientcmdapi.AuthInfo{}
	edit(user)
	c.Clusters["red"], c.AuthInfos["red"] = &clientcmdapi.Cluster{Server: server}, user
	c.Contexts["red"] = &clientcmdapi.Context{Cluster: "red", AuthInfo: "red"}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*c, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// from returns the peers of a cluster with a kubeconfig.
func from(t *testing.T, file string) *peers.Peers {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(limpetv1alpha1.AddToScheme(scheme), policyv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	return peers.New(peers.Options{Cluster: "blue", Kubeconfig: file, Scheme: scheme})
}

// answering is an API server that answers nothing but requests for budgets, and says what else it was asked.
func answering(t *testing.T, answer http.HandlerFunc) (server string, others func() string) {
	t.Helper()
	var mu sync.Mutex
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, budgets) || strings.TrimSuffix(r.URL.Path, "/") == strings.TrimSuffix(budgets, "/") {
			mu.Lock()
			asked = append(asked, r.URL.Path)
			mu.Unlock()
		}
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(asked, " ")
	}
}

func write(w http.ResponseWriter, o any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(o)
}

func budgetNamed(name string, federation ...limpetv1alpha1.BudgetPeer) limpetv1alpha1.DistributedPodDisruptionBudget {
	b := limpetv1alpha1.DistributedPodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	b.APIVersion, b.Kind = limpetv1alpha1.GroupVersion.String(), "DistributedPodDisruptionBudget"
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}
	b.Spec.Federation = federation
	return b
}

// TestReadAsksForBudgetsAlone has a peer that answers at once, and more decisions than a client makes in a second that
// bounds itself. A look at what the API server serves would not end with the time of a decision.
func TestReadAsksForBudgetsAlone(t *testing.T) {
	server, others := answering(t, func(w http.ResponseWriter, _ *http.Request) { write(w, budgetNamed("db")) })
	p := from(t, kubeconfig(t, server, func(*clientcmdapi.AuthInfo) {}))
	for range 60 {
		if b, err := p.Read(t.Context(), "red", "shop", "db"); err != nil || b.Name != "db" {
			t.Fatalf("%v: %v", b, err)
		}
	}
	if asked := others(); asked != "" {
		t.Errorf("the peer is asked for %s", asked)
	}
}

// TestKnownWaitsForNoPeer has a peer that does not answer: one reconcile must not hold up the others.
func TestKnownWaitsForNoPeer(t *testing.T) {
	closed, asked := make(chan struct{}), make(chan struct{}, 1)
	defer close(closed)
	server, _ := answering(t, func(http.ResponseWriter, *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
		<-closed
	})
	p := from(t, kubeconfig(t, server, func(*clientcmdapi.AuthInfo) {}))
	go func() { _ = p.Start(t.Context()) }()
	<-asked
	if _, err := p.Known(t.Context(), "red", "shop", "db"); err == nil || !strings.Contains(err.Error(), "was not heard of yet") {
		t.Error(err)
	}
}

// TestAKubeconfigRunsNoProgram has contexts that would run a program, or read a file, in the controller's pod.
func TestAKubeconfigRunsNoProgram(t *testing.T) {
	for name, edit := range map[string]func(*clientcmdapi.AuthInfo){
		"program": func(a *clientcmdapi.AuthInfo) {
			a.Exec = &clientcmdapi.ExecConfig{APIVersion: "client.authentication.k8s.io/v1", Command: "true", InteractiveMode: clientcmdapi.NeverExecInteractiveMode}
		},
		"file":   func(a *clientcmdapi.AuthInfo) { a.TokenFile = "/etc/hostname" },
		"plugin": func(a *clientcmdapi.AuthInfo) { a.AuthProvider = &clientcmdapi.AuthProviderConfig{Name: "oidc"} },
	} {
		p := from(t, kubeconfig(t, "https://127.0.0.1:1", edit))
		if _, err := p.Read(t.Context(), "red", "shop", "db"); err == nil || !strings.Contains(err.Error(), "use a token or a certificate") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestManyReadsOfOneNamespace has budgets that name others of this cluster, in a namespace that does not answer: few
// reads are on their way at a time.
func TestManyReadsOfOneNamespace(t *testing.T) {
	const atOnce = 8
	release, asked := make(chan struct{}), make(chan struct{}, 40)
	var now, most atomic.Int32
	server, _ := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		asked <- struct{}{}
		<-release
		now.Add(-1)
		write(w, budgetNamed("db"))
	})
	far := from(t, kubeconfig(t, server, func(*clientcmdapi.AuthInfo) {}))
	live, err := client.New(&rest.Config{Host: server, QPS: -1}, client.Options{Scheme: far.Scheme, Mapper: mapper()})
	if err != nil {
		t.Fatal(err)
	}
	p := peers.New(peers.Options{Cluster: "blue", Scheme: far.Scheme, Live: live})
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() { _, _ = p.Read(t.Context(), "blue", "shop", fmt.Sprint("db-", i)) }) // its answer is not what is tested
	}
	for range atOnce {
		<-asked
	}
	close(release)
	all.Wait()
	if most.Load() > atOnce {
		t.Errorf("%d reads at a time, want at most %d", most.Load(), atOnce)
	}
}

func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper([]schema.GroupVersion{limpetv1alpha1.GroupVersion})
	m.Add(limpetv1alpha1.GroupVersion.WithKind("DistributedPodDisruptionBudget"), meta.RESTScopeNamespace)
	return m
}

// TestAPodDisruptionBudgetNamesItsReaders has one that names a budget, and one that names none.
func TestAPodDisruptionBudgetNamesItsReaders(t *testing.T) {
	pdb := policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", Generation: 2}}
	pdb.Spec.MaxUnavailable = new(intstr.FromInt32(1))
	pdb.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 2, ExpectedPods: 2, DesiredHealthy: 3, CurrentHealthy: 1}
	if b := peers.Plain(&pdb); len(b.Spec.Federation) != 0 {
		t.Errorf("peers %v of a PodDisruptionBudget that names none", b.Spec.Federation)
	}
	pdb.Annotations = map[string]string{policyv1beta1.AnnotationPeers: "blue/shop/db, /other/db,nonsense"}
	b := peers.Plain(&pdb)
	want := []limpetv1alpha1.BudgetPeer{{Cluster: "blue", Namespace: "shop", Name: "db"}, {Namespace: "other", Name: "db"}}
	if !slices.Equal(b.Spec.Federation, want) || b.Name != "pdb/db" || b.Status.ExpectedPods != 3 || b.Status.Shares[0].Short != 2 {
		t.Errorf("%+v", b)
	}
	pdb.Annotations[policyv1beta1.AnnotationPeers] += strings.Repeat(",/x/db", 1000)
	if b = peers.Plain(&pdb); len(b.Spec.Federation) != 16 { // 17 names, and one of them is wrong
		t.Errorf("%d budgets are named", len(b.Spec.Federation))
	}
	kept := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", Generation: 2}}
	if peers.KeepPlain(&pdb, kept); !reflect.DeepEqual(peers.Plain(kept), b) {
		t.Errorf("the cache keeps %+v", kept)
	}
}
