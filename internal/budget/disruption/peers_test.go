package disruption

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/budget/peers"
	"github.com/limpet-io/limpet/internal/platform/ledger"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// TestHeardOfHasNoRoomForLongTexts has a peer with a nonce that no book takes.
func TestHeardOfHasNoRoomForLongTexts(t *testing.T) {
	b := &limpetv1alpha1.DistributedPodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}
	b.Spec.Federation = []limpetv1alpha1.BudgetPeer{{Cluster: "blue", Name: "db"}}
	b.Status.Shares = []limpetv1alpha1.BudgetShare{{Group: "g", Nonce: strings.Repeat("x", 65)}, {Group: "h", Nonce: "n"}}
	if h := HeardOf("blue/shop/db", "red/shop/db", "red", b); h.Problem != "" || len(h.Reports) != 1 {
		t.Errorf("%+v", h)
	}
}

// TestPeersOfAllBudgetsAreAskedAtOnce has three budgets of a pod. Their peers answer when all of them are asked.
func TestPeersOfAllBudgetsAreAskedAtOnce(t *testing.T) {
	var asked sync.WaitGroup
	asked.Add(3)
	j := judgeBeside(t, func(w http.ResponseWriter) {
		asked.Done()
		asked.Wait()
		http.NotFound(w, nil)
	})
	in := inquiry{vector: budget.Evict, request: Request{Pod: testenv.APod("db-0").Pod}}
	for _, name := range []string{"a", "b", "c"} {
		b := &limpetv1alpha1.DistributedPodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
		b.Spec.MaxUnavailable = new(intstr.FromInt32(1))
		b.Spec.Federation = []limpetv1alpha1.BudgetPeer{{Cluster: "red", Name: name}}
		in.covering = append(in.covering, covering{object: budget.Undivided(b), divided: b})
	}
	j.askPeers(t.Context(), in)
	for _, of := range in.covering {
		for site, heard := range of.sites.Peers {
			if heard.Problem != peers.ErrNotNamed.Error() {
				t.Errorf("%s %s", site, heard.Problem)
			}
		}
	}
}

// TestAPeerIsAskedAgain has a peer that sent a unit after it was read, and a book that has taken it by then.
func TestAPeerIsAskedAgain(t *testing.T) {
	var asked int64
	silent := false
	j := judgeBeside(t, func(w http.ResponseWriter) {
		if silent {
			http.NotFound(w, nil)
			return
		}
		peer := &limpetv1alpha1.DistributedPodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}
		peer.SetGroupVersionKind(limpetv1alpha1.GroupVersion.WithKind("DistributedPodDisruptionBudget"))
		peer.Spec.Federation = []limpetv1alpha1.BudgetPeer{{Cluster: "blue", Name: "db"}}
		peer.Status.Shares = []limpetv1alpha1.BudgetShare{{Group: "g", Agreement: "x", Open: true, Units: []limpetv1alpha1.PeerUnits{{Site: "blue/shop/db", Sent: asked}}}}
		asked++
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(peer); err != nil {
			t.Error(err)
		}
	})
	b := &limpetv1alpha1.DistributedPodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", UID: "u"}}
	b.Spec.MaxUnavailable, b.Spec.Federation = new(intstr.FromInt32(1)), []limpetv1alpha1.BudgetPeer{{Cluster: "red", Name: "db"}}
	in := inquiry{vector: budget.Evict, request: Request{Pod: testenv.APod("db-0").Pod}, covering: []covering{{object: budget.Undivided(b), divided: b}}}
	book := ledger.Book{Shares: []ledger.Share{{Budget: "dpdb/db", UID: "u", Group: "g", Agreement: "x", Open: true, Peers: []ledger.PeerUnits{{Site: "red/shop/db", Taken: 1}}}}}
	j.askPeers(t.Context(), in)
	of := budget.Budget{Name: "dpdb/db", UID: "u", Sites: in.covering[0].sites}
	if !of.Contradicted(book) {
		t.Error("the peer shows the unit before it was sent")
	}
	silent = true
	j.askAgain(t.Context(), in, book)
	if !of.Contradicted(book) {
		t.Error("a peer that does not answer any more has shown nothing")
	}
	silent = false
	for range 2 { // and once is enough
		j.askAgain(t.Context(), in, book)
	}
	if of.Contradicted(book) || asked != 2 {
		t.Errorf("asked %d times, the peer shows %+v", asked, of.Sites.Peers)
	}
}

// judgeBeside knows a cluster red whose API server answers each request so.
func judgeBeside(t *testing.T, answer func(http.ResponseWriter)) *Judge {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w) }))
	t.Cleanup(server.Close)
	c := clientcmdapi.NewConfig()
	c.Clusters["red"], c.AuthInfos["red"] = &clientcmdapi.Cluster{Server: server.URL}, &clientcmdapi.AuthInfo{}
	c.Contexts["red"] = &clientcmdapi.Context{Cluster: "red", AuthInfo: "red"}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*c, file); err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := limpetv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	return NewJudge(Options{Peers: peers.New(peers.Options{Cluster: "blue", Kubeconfig: file, Scheme: scheme})})
}
