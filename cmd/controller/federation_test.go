package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// land is a cluster with a controller of its own. Others reach it through a relay.
type land struct {
	name    string
	env     *testenv.Env
	relay   *testenv.Relay
	peers   string // the kubeconfig of its controller for others
	replica *replica
}

// startLands starts clusters whose controllers know one another.
func startLands(t *testing.T, names ...string) []*land {
	t.Helper()
	var all []*land
	for i, name := range names {
		if i > 0 {
			testenv.Beside(t, &env)
		}
		all = append(all, &land{name: name, env: env, relay: env.Relay(t), peers: filepath.Join(t.TempDir(), "kubeconfig")})
	}
	for _, l := range all {
		l.writePeers(t, all)
	}
	for _, l := range all {
		env = l.env
		install(t)
		if l == all[len(all)-1] { // the clocks of clusters differ
			t.Setenv(aheadVar, "5m")
		}
		l.replica = startReplica(t, "--cluster-name="+l.name, "--peers-kubeconfig="+l.peers, "--leader-elect=false")
		pointWebhooksAt(t, l.replica)
		l.replica.waitReady(t)
		l.replica.env = append(l.replica.env, aheadVar+"="+os.Getenv(aheadVar)) // when it starts again, too
	}
	return all
}

// writePeers writes a context for each other cluster.
func (l *land) writePeers(t *testing.T, all []*land) {
	t.Helper()
	c := clientcmdapi.NewConfig()
	for _, other := range all {
		if other == l {
			continue
		}
		config := other.env.Config
		c.Clusters[other.name] = &clientcmdapi.Cluster{Server: "https://" + other.relay.Address, CertificateAuthorityData: config.CAData}
		c.AuthInfos[other.name] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
		c.Contexts[other.name] = &clientcmdapi.Context{Cluster: other.name, AuthInfo: other.name}
	}
	if err := clientcmd.WriteToFile(*c, l.peers); err != nil {
		t.Fatal(err)
	}
}

// budget is that of the pods with the label app=db, which names all budgets of the team.
func (w *team) budget(at int, edit func(*limpetv1alpha1.DistributedPodDisruptionBudgetSpec)) *limpetv1alpha1.DistributedPodDisruptionBudget {
	b := &limpetv1alpha1.DistributedPodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: w.in[at], Name: w.title()}}
	b.Annotations = map[string]string{policyv1beta1.AnnotationFailurePolicy: "Closed"} // a busy machine answers late
	if w.open {
		b.Annotations = nil
	}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": w.title()}}
	for i, l := range w.lands {
		b.Spec.Federation = append(b.Spec.Federation, limpetv1alpha1.BudgetPeer{Cluster: l.name, Namespace: w.in[i], Name: w.title()})
	}
	edit(&b.Spec)
	return b
}

// team is a StatefulSet with Ready pods in one namespace of each land.
type team struct {
	lands []*land
	in    []string // namespaces
	size  int      // pods of each budget
	pods  [][]*corev1.Pod
	open  bool   // pods go while no controller answers
	name  string // of the budgets and of the label app; "" for db, in namespaces that do not exist yet
	node  string // of the pods; "" for n1

	budgets []*limpetv1alpha1.DistributedPodDisruptionBudget // as they were made
	went    []atomic.Int32                                   // evictions at each site
}

const perLand = 3

func (w *team) title() string { return cmp.Or(w.name, "db") }

func newTeam(t *testing.T, ns string, lands []*land, edit func(*limpetv1alpha1.DistributedPodDisruptionBudgetSpec)) *team {
	t.Helper()
	w := &team{lands: lands, in: []string{ns, ns, ns}, size: perLand}
	w.fill(t, edit)
	w.settle(t)
	return w
}

// fill makes the budgets and their pods.
func (w *team) fill(t *testing.T, edit func(*limpetv1alpha1.DistributedPodDisruptionBudgetSpec)) {
	t.Helper()
	w.went = make([]atomic.Int32, len(w.lands))
	for i, l := range w.lands {
		ns := w.in[i]
		if w.name == "" {
			l.env.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
		}
		set := testenv.AStatefulSet(w.title(), int32(w.size)).In(ns)
		set.Spec.Template.Labels = map[string]string{"app": w.title()}
		set.Spec.Selector = &metav1.LabelSelector{MatchLabels: set.Spec.Template.Labels}
		l.env.Create(t, set.StatefulSet)
		var pods []*corev1.Pod
		for i := range w.size {
			pod := testenv.APod(fmt.Sprint(w.title(), "-", i)).In(ns).OwnedBy(set.StatefulSet).On(cmp.Or(w.node, "n1")).Ready()
			pod.Labels = map[string]string{"app": w.title()}
			w.put(t, l, pod.Pod)
			pods = append(pods, pod.Pod)
		}
		w.pods = append(w.pods, pods)
	}
	for i, l := range w.lands { // the last, so that they are removed first
		w.budgets = append(w.budgets, w.budget(i, edit))
		l.env.Create(t, w.budgets[i])
	}
}

// put makes a pod. It goes when the test ends, and the controller no longer sees the budget.
func (w *team) put(t *testing.T, l *land, pod *corev1.Pod) {
	t.Helper()
	status := pod.Status
	if err := l.env.Client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	l.env.ChangeStatus(t, pod, func() { pod.Status = status })
	t.Cleanup(func() {
		err := wait.PollUntilContextTimeout(context.WithoutCancel(t.Context()), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			of := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
			return client.IgnoreNotFound(l.env.Client.Delete(ctx, of, client.GracePeriodSeconds(0))) == nil, nil
		})
		if err != nil {
			t.Errorf("remove pod: %v", err)
		}
	})
}

// settle waits until the budgets of all lands are enforced and agree.
func (w *team) settle(t *testing.T) {
	t.Helper()
	for land := range w.lands {
		w.shows(t, land, func(b *limpetv1alpha1.DistributedPodDisruptionBudget) bool {
			closed := slices.ContainsFunc(b.Status.Shares, func(s limpetv1alpha1.BudgetShare) bool { return !s.Open })
			return len(b.Status.Shares) > 0 && !closed && b.Status.CurrentHealthy == int32(w.size)
		})
	}
}

// evict asks for one pod of a land.
func (w *team) evict(ctx context.Context, land, pod int, dryRun ...string) error {
	e := &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: new(int64(0)), DryRun: dryRun}}
	err := w.lands[land].env.Client.SubResource("eviction").Create(ctx, w.pods[land][pod].DeepCopy(), e)
	if err == nil && dryRun == nil {
		w.went[land].Add(1)
	}
	return err
}

// goes evicts a pod, and asks again as kubectl drain does.
func (w *team) goes(t *testing.T, land, pod int) {
	t.Helper()
	testenv.Within(t, time.Minute, func() error { return w.evict(t.Context(), land, pod) })
}

// goesDeleted deletes a pod, and asks again.
func (w *team) goesDeleted(t *testing.T, land, pod int) {
	t.Helper()
	testenv.Within(t, time.Minute, func() error {
		return w.lands[land].env.Client.Delete(t.Context(), w.pods[land][pod].DeepCopy(), client.GracePeriodSeconds(0))
	})
	w.went[land].Add(1)
}

// stays fails unless an eviction is refused each time, and some time with a text: first it may wait for a cache or for other
// requests. A dry run asks no peer for a unit.
func (w *team) stays(t *testing.T, land, pod int, text string) {
	t.Helper()
	testenv.Within(t, time.Minute, func() error {
		err := w.evict(t.Context(), land, pod, metav1.DryRunAll)
		if !apierrors.IsTooManyRequests(err) {
			t.Fatalf("eviction in %s: %v, want it refused", w.lands[land].name, err)
		}
		if !strings.Contains(err.Error(), text) {
			return fmt.Errorf("eviction in %s: %w, want a refusal that says %q", w.lands[land].name, err, text)
		}
		return nil
	})
}

// isKept fails unless a deletion is refused.
func (w *team) isKept(t *testing.T, land, pod int) {
	t.Helper()
	if err := w.lands[land].env.Client.Delete(t.Context(), w.pods[land][pod].DeepCopy()); !apierrors.IsTooManyRequests(err) {
		t.Errorf("deletion in %s: %v, want a refusal", w.lands[land].name, err)
	}
}

// rebuild makes the successor of a pod.
func (w *team) rebuild(t *testing.T, land, pod int) {
	t.Helper()
	old := w.pods[land][pod]
	next := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.in[land], Name: old.Name, Labels: old.Labels, OwnerReferences: old.OwnerReferences}, Spec: *old.Spec.DeepCopy(),
	}
	in := w.lands[land].env
	testenv.Eventually(t, func() error { return in.Client.Create(t.Context(), next) })
	in.ChangeStatus(t, next, func() { next.Status = old.Status })
	w.pods[land][pod] = next
}

func atLeast(n int32) func(*limpetv1alpha1.DistributedPodDisruptionBudgetSpec) {
	return func(s *limpetv1alpha1.DistributedPodDisruptionBudgetSpec) { s.MinAvailable = new(intstr.FromInt32(n)) }
}

// as gives the budgets of a team the specs of others, one after the other.
func as(others ...limpetv1alpha1.DistributedPodDisruptionBudget) func(*limpetv1alpha1.DistributedPodDisruptionBudgetSpec) {
	next := -1
	return func(s *limpetv1alpha1.DistributedPodDisruptionBudgetSpec) {
		next++
		others[next%len(others)].Spec.DeepCopyInto(s)
	}
}

// examples reads the budgets of a manifest for users.
func examples(t *testing.T, name string) (all []limpetv1alpha1.DistributedPodDisruptionBudget) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/examples/" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	for one := range strings.SplitSeq(string(text), "\n---\n") {
		var b limpetv1alpha1.DistributedPodDisruptionBudget
		if err := yaml.UnmarshalStrict([]byte(one), &b); err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	return all
}

func atMostOne(s *limpetv1alpha1.DistributedPodDisruptionBudgetSpec) {
	s.MaxUnavailable = new(intstr.FromInt32(1))
}

// TestBudgetsOverClusters runs three control planes, each with a controller of its own. The nine scenarios of x-pdb's suite are
// among what it does:
//
//	1 and 3  a pod is not Ready: no other goes            a pod that is lost
//	2 and 4  one pod in each cluster in turn              one unit goes round
//	5        a suspended budget                           budgets that are gone
//	6        each cluster evicts everything               everything is evicted at once
//	7 and 8  a probe says whether a pod is well           a pod that is lost: the kubelet says it
//	9        a pod waits until its preparation is over    TestHooksAsOpenKruiseHasThem
func TestBudgetsOverClusters(t *testing.T) {
	lands := startLands(t, "blue", "green", "red")
	counted := followShares(t, lands)
	for name, edit := range map[string]func(*limpetv1alpha1.DistributedPodDisruptionBudgetSpec){"min": as(examples(t, "clusters")...), "max": atMostOne} {
		t.Run(name, func(t *testing.T) {
			w := newTeam(t, name, lands, edit)
			defer budgetsKept(t, w)
			t.Run("one unit goes round", func(t *testing.T) {
				for land := range lands {
					began := time.Now()
					if land == 1 {
						w.goesDeleted(t, land, 0)
					} else {
						w.goes(t, land, 0)
					}
					t.Logf("cluster %s may let a pod go after %s", lands[land].name, time.Since(began).Round(time.Millisecond))
					w.stays(t, (land+1)%3, 1, "") // by its share, or because the peer lacks a pod
					w.isKept(t, (land+1)%3, 1)
					w.draw(t, name+": "+lands[land].name+" took a unit")
					w.rebuild(t, land, 0)
				}
			})
			w.settle(t)
			t.Run("a dry run takes nothing", func(t *testing.T) { w.dryRun(t) })
			t.Run("everything is evicted at once", func(t *testing.T) { w.storm(t) })
			w.settle(t)
			t.Run("a pod that is lost", func(t *testing.T) { w.loss(t) })
			w.settle(t)
			t.Run("a peer that does not answer", func(t *testing.T) { w.cut(t) })
		})
	}
	t.Run("a ring", func(t *testing.T) { ringOverLands(t, lands) })
	t.Run("units that are reserved", func(t *testing.T) { reserved(t, lands) })
	t.Run("a peer that is taken out", func(t *testing.T) { takenOut(t, lands) })
	t.Run("a PodDisruptionBudget", func(t *testing.T) { plainPeer(t, lands) })
	t.Run("a unit that is on its way", func(t *testing.T) { onItsWay(t, lands) })
	t.Run("slow and silent peers", func(t *testing.T) { slowPeers(t, lands) })
	t.Run("controllers that are killed", func(t *testing.T) { killed(t, lands) })
	t.Run("budgets that are gone", func(t *testing.T) { withoutBudgets(t, lands) })
	t.Run("children in each cluster", func(t *testing.T) { childrenOverLands(t, lands) })
	counted.check(t)
}

// dryRun asks as a dry run, and compares the books. Units may be on their way from former requests.
func (w *team) dryRun(t *testing.T) {
	testenv.Within(t, time.Minute, func() error {
		before, allowed := w.books(t), 0
		for land := range w.lands {
			if w.evict(t.Context(), land, 0, metav1.DryRunAll) == nil {
				allowed++
			}
		}
		if after := w.books(t); after != before || allowed == 0 {
			return fmt.Errorf("%d dry runs pass; books %s, before %s", allowed, after, before)
		}
		return nil
	})
}

// books are the entries and shares of all books.
func (w *team) books(t *testing.T) (text string) {
	t.Helper()
	for i, l := range w.lands {
		var all limpetv1alpha1.DisruptionBookList
		if err := l.env.Client.List(t.Context(), &all, client.InNamespace(w.in[i])); err != nil {
			t.Fatal(err)
		}
		for i := range all.Items {
			text += fmt.Sprintf("%s: %+v %+v\n", l.name, all.Items[i].Entries, all.Items[i].Shares)
		}
	}
	return text
}

// storm lets each land evict each of its pods once, all at the same time, and rebuilds them.
func (w *team) storm(t *testing.T) {
	var all sync.WaitGroup
	for land := range w.lands {
		all.Go(func() {
			for pod := range perLand {
				w.goes(t, land, pod)
				w.rebuild(t, land, pod)
			}
		})
	}
	all.Wait()
}

// loss makes two pods of the first land not Ready, of which one is beyond the share, and one of them Ready again: no other pod
// of any land may go.
func (w *team) loss(t *testing.T) {
	config := rest.CopyConfig(w.lands[0].env.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:node:n1", Groups: []string{"system:nodes", "system:masters"}}
	kubelet := w.lands[0].env.As(t, config)
	says := func(pod int, ready corev1.ConditionStatus) {
		of := w.pods[0][pod]
		of.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
		if err := kubelet.Status().Update(t.Context(), of); err != nil {
			t.Fatal(err)
		}
	}
	for _, pod := range []int{1, 2} {
		says(pod, corev1.ConditionFalse)
	}
	w.shows(t, 0, func(b *limpetv1alpha1.DistributedPodDisruptionBudget) bool { // one unit comes for one of both
		return b.Status.CurrentHealthy == perLand-2 && len(b.Status.Shares) == 1 && b.Status.Shares[0].Short == 1
	})
	says(1, corev1.ConditionTrue)
	w.shows(t, 0, func(b *limpetv1alpha1.DistributedPodDisruptionBudget) bool {
		return b.Status.CurrentHealthy == perLand-1 && len(b.Status.Shares) == 1 && b.Status.Shares[0].Short == 0
	})
	for land := range w.lands {
		w.stays(t, land, 0, "")
	}
	says(2, corev1.ConditionTrue)
}

// shows waits until the budget of a land shows something.
func (w *team) shows(t *testing.T, land int, what func(*limpetv1alpha1.DistributedPodDisruptionBudget) bool) {
	t.Helper()
	testenv.Within(t, time.Minute, func() error {
		var b limpetv1alpha1.DistributedPodDisruptionBudget
		if err := w.lands[land].env.Client.Get(t.Context(), client.ObjectKey{Namespace: w.in[land], Name: w.title()}, &b); err != nil {
			return err
		}
		if !what(&b) {
			return fmt.Errorf("budget in %s shows %+v", w.lands[land].name, b.Status)
		}
		return nil
	})
}

// cut takes the last land from the others: no pod of them may go, and its own neither, until it is back.
func (w *team) cut(t *testing.T) {
	last := w.lands[len(w.lands)-1]
	last.relay.Cut()
	w.stays(t, 0, 0, "peer red/"+w.in[2]+"/db cannot be read")
	w.stays(t, 1, 0, "peer red/"+w.in[2]+"/db cannot be read")
	last.relay.Mend(t)
	w.goes(t, 0, 0)
	w.rebuild(t, 0, 0)
}

// ringOverLands has nine positions of one pod, each in the next land, of which each names the two before and the two
// behind it, and wants four of five pods. Three may be away at once; and when all are evicted together, two neighbours
// never are. The first land has all units at the beginning: it is the home of each pair that it is in.
func ringOverLands(t *testing.T, lands []*land) {
	ring := examples(t, "ring")
	positions := len(ring)
	w := &team{size: 1}
	for i, b := range ring {
		if b.Labels["cluster"] != lands[i%3].name {
			t.Fatalf("position %s is in cluster %s", b.Namespace, b.Labels["cluster"])
		}
		w.lands, w.in = append(w.lands, lands[i%3]), append(w.in, b.Namespace)
	}
	w.fill(t, as(ring...))
	defer budgetsKept(t, w)
	w.settle(t)
	w.draw(t, "a ring over clusters", "◎●●◎●●◎●●")
	for i, marks := range []string{"○●●◎●●◎●●", "○●●○●●◎●●", "○●●○●●○●●"} {
		w.goes(t, 3*i, 0)
		w.draw(t, fmt.Sprintf("position %d0 went", 3*i), marks)
	}
	for i := 0; i < positions; i += 3 {
		w.stays(t, i+1, 0, "")
		w.stays(t, i+2, 0, "")
	}
	for i := 0; i < positions; i += 3 {
		w.rebuild(t, i, 0)
	}
	var all sync.WaitGroup
	for i := range positions {
		all.Go(func() {
			w.goes(t, i, 0)
			w.rebuild(t, i, 0)
		})
	}
	all.Wait()
}

// reserved cuts all lands from one another. Where the unit lies, one pod may go, and nowhere else.
func reserved(t *testing.T, lands []*land) {
	w := newTeam(t, "reserved", lands, func(s *limpetv1alpha1.DistributedPodDisruptionBudgetSpec) {
		atLeast(8)(s)
		s.PartitionPolicy = limpetv1alpha1.PartitionReserved
	})
	defer budgetsKept(t, w)
	w.goes(t, 1, 0)
	w.rebuild(t, 1, 0)
	w.shows(t, 1, func(b *limpetv1alpha1.DistributedPodDisruptionBudget) bool { return b.Status.DisruptionsAllowed == 1 })
	for _, l := range lands {
		l.relay.Cut()
	}
	w.stays(t, 0, 0, "its share of minAvailable 8 in 3 sites")
	w.stays(t, 2, 0, "its share of minAvailable 8 in 3 sites")
	if err := w.evict(t.Context(), 1, 1); err != nil {
		t.Errorf("the unit that is at hand: %v", err)
	}
	w.stays(t, 1, 2, "")
	w.rebuild(t, 1, 1)
	for _, l := range lands {
		l.relay.Mend(t)
	}
	w.goes(t, 0, 0)
}

// takenOut cuts one land off. The others go on when both no longer name it.
func takenOut(t *testing.T, lands []*land) {
	w := newTeam(t, "gone", lands, atMostOne)
	defer budgetsKept(t, w)
	lands[2].relay.Cut()
	w.stays(t, 0, 0, "cannot be read")
	for i := range 2 {
		var b limpetv1alpha1.DistributedPodDisruptionBudget
		lands[i].env.Read(t, client.ObjectKey{Namespace: w.in[i], Name: "db"}, &b)
		lands[i].env.Change(t, &b, func() { b.Spec.Federation = b.Spec.Federation[:2] })
		if i == 0 {
			w.shows(t, 0, func(b *limpetv1alpha1.DistributedPodDisruptionBudget) bool { return b.Status.DisruptionsAllowed == 0 })
			w.stays(t, 0, 0, "have not agreed")
		}
	}
	w.goes(t, 1, 0)
	w.stays(t, 0, 0, "")
	w.rebuild(t, 1, 0)
	w.goes(t, 0, 0)
	lands[2].relay.Mend(t)
	w.shows(t, 2, func(b *limpetv1alpha1.DistributedPodDisruptionBudget) bool { return b.Status.DisruptionsAllowed == 0 })
	w.stays(t, 2, 0, "does not name this budget")
	w.rebuild(t, 0, 0)
	for i := range 2 { // and back
		var b limpetv1alpha1.DistributedPodDisruptionBudget
		lands[i].env.Read(t, client.ObjectKey{Namespace: w.in[i], Name: "db"}, &b)
		lands[i].env.Change(t, &b, func() { b.Spec.Federation = w.budgets[i].Spec.Federation })
	}
	w.goes(t, 2, 0)
	w.stays(t, 0, 0, "")
	w.stays(t, 1, 0, "")
}

// TestBudgetsOverNamespaces has two budgets of one cluster, and one that names them and is not named.
func TestBudgetsOverNamespaces(t *testing.T) {
	install(t)
	r := startReplica(t, "--leader-elect=false")
	pointWebhooksAt(t, r)
	r.waitReady(t)
	here := &land{name: "", env: env, replica: r}
	w := &team{lands: []*land{here, here}, in: []string{"shop-a", "shop-b"}, size: perLand}
	w.fill(t, as(examples(t, "namespaces")...))
	defer budgetsKept(t, w)
	w.settle(t)
	t.Log(legend)
	w.draw(t, "two namespaces")
	w.goes(t, 1, 0)
	w.stays(t, 0, 0, "")
	w.draw(t, "shop-b took the unit")
	w.rebuild(t, 1, 0)
	w.goes(t, 0, 0)
	w.stays(t, 1, 1, "")
	w.draw(t, "shop-a took the unit")
	w.rebuild(t, 0, 0)
	w.storm(t)
	t.Run("a ring in one object", func(t *testing.T) { ringInOneObject(t, here) })

	stranger := &team{lands: []*land{here}, in: []string{"shop-c"}, size: perLand}
	stranger.fill(t, func(s *limpetv1alpha1.DistributedPodDisruptionBudgetSpec) {
		atMostOne(s)
		s.Federation = []limpetv1alpha1.BudgetPeer{{Namespace: "shop-a", Name: "db"}, {Namespace: "shop-b", Name: "db"}}
	})
	stranger.shows(t, 0, func(b *limpetv1alpha1.DistributedPodDisruptionBudget) bool {
		for _, of := range b.Status.FederatedStatuses { // it learns nothing of pods that are not its own
			if of.ExpectedPods != 0 || of.Problem == "" {
				return false
			}
		}
		return len(b.Status.FederatedStatuses) == 2
	})
	stranger.stays(t, 0, 0, "does not name this budget in spec.federation")
	w.goes(t, 1, 1) // and does not disturb the others
}
