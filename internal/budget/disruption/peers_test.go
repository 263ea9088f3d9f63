package disruption

import (
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
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Done()
		asked.Wait()
		http.NotFound(w, nil)
	}))
	defer server.Close()
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
	j := NewJudge(Options{Peers: peers.New(peers.Options{Cluster: "blue", Kubeconfig: file, Scheme: scheme})})
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
